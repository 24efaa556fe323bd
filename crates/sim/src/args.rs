//! The command line.

pub(crate) const HELP: &str = "\
posthaste-sim: many engines, one store, one seed, every fault

usage: posthaste-sim [--seeds N] [--first SEED]
       posthaste-sim --seed SEED [--log]

  --seeds N      how many seeds to run (default 100); each is an hour of simulated turmoil
  --first SEED   the first of them (default 1)
  --seed SEED    run this one seed only: it does exactly what it did before
  --log          print what the engines log, with the simulated time
  --help         this text

example: posthaste-sim --seeds 1000
";

pub(crate) struct Args {
    pub(crate) seeds: u64,
    pub(crate) first: u64,
    pub(crate) log: bool,
}

pub(crate) enum Command {
    Help,
    Run(Args),
}

impl Args {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Command, String> {
        let mut args = Self { seeds: 100, first: 1, log: false };
        while let Some(flag) = words.next() {
            let mut number = || number(&flag, words.next());
            match flag.as_str() {
                "--help" | "-h" => return Ok(Command::Help),
                "--seeds" => args.seeds = number()?,
                "--first" => args.first = number()?,
                "--seed" => (args.seeds, args.first) = (1, number()?),
                "--log" => args.log = true,
                _ => return Err(format!("unknown option {flag:?}")),
            }
        }
        Ok(Command::Run(args))
    }
}

fn number(flag: &str, value: Option<String>) -> Result<u64, String> {
    let value = value.ok_or_else(|| format!("{flag} needs a number"))?;
    value.parse().map_err(|_| format!("{flag} needs a whole number, got {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, String> {
        Args::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn one_seed_or_many() {
        assert!(matches!(
            parse("--seeds 7 --first 3"),
            Ok(Command::Run(Args { seeds: 7, first: 3, log: false }))
        ));
        assert!(matches!(
            parse("--seed 42 --log"),
            Ok(Command::Run(Args { seeds: 1, first: 42, log: true }))
        ));
        assert!(matches!(parse("--help"), Ok(Command::Help)));
    }

    #[test]
    fn bad_usage_names_the_word() {
        assert!(parse("--sedes 7").is_err_and(|message| message.contains("--sedes")));
        assert!(parse("--seeds many").is_err_and(|message| message.contains("many")));
        assert!(parse("--seeds").is_err_and(|message| message.contains("--seeds")));
    }
}

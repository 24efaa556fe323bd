//! Parsing of the command line.

pub(crate) const HELP: &str = "\
posthaste-sim: simulates several engines on one store under faults

usage: posthaste-sim [--seeds N] [--first SEED]
       posthaste-sim --seed SEED [--log]

  --seeds N      how many seeds to run (default 100); each simulates one hour of faults
  --first SEED   the first seed (default 1)
  --seed SEED    run only this seed; every run of a seed is identical
  --log          print the log of the engines, with the simulated time
  --help         print this text

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
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
        let mut args = Self { seeds: 100, first: 1, log: false };
        while let Some(flag) = arguments.next() {
            let mut number = || number(&flag, arguments.next());
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
    fn one_seed_or_many_are_accepted() {
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
    fn usage_error_names_the_argument() {
        assert!(parse("--sedes 7").is_err_and(|message| message.contains("--sedes")));
        assert!(parse("--seeds many").is_err_and(|message| message.contains("many")));
        assert!(parse("--seeds").is_err_and(|message| message.contains("--seeds")));
    }
}

//! README's endpoint and publish from Python, run as they are written, with the SDK that `make need-sdks` installs.

use crate::document::{blocks, read, root, section};
use crate::runner::{DocumentRunner, steps};

const SECTION: &str = "Endpoints of your customers, from Python";

#[test]
fn the_program_in_readme_adds_an_endpoint_and_publishes_to_it() {
    let python = root().join("target/tools/svix-python-2.9.1/bin/python");
    assert!(python.exists(), "the SDK is missing: `make need-sdks` installs it into target/tools");
    let text = section(&read("README.md"), SECTION);
    let program =
        blocks(&text).into_iter().find(|block| block.language == "python").expect("README has the program");
    assert!(program.text.lines().filter(|line| !line.is_empty()).count() <= 10, "it has ten lines");
    assert!(text.contains("pip install svix==2.9.1"), "README names the version that is tried");
    let mut runner = DocumentRunner::new();
    for mut step in steps(&text) {
        if step.commands.contains("python3 publish.py") {
            let program = runner.with_real_addresses(&program.text);
            runner.run_to_end(&format!("cat > publish.py <<'END'\n{program}END\n"), "");
            step.commands = step.commands.replace("python3", python.to_str().unwrap());
        }
        runner.run_step(&step);
    }
}

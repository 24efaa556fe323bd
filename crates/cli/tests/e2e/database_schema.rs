//! A PostgreSQL database whose schema `app` belongs to another application.

use crate::harness::{Receiver, Sandbox, Store};

#[test]
fn database_of_another_application_is_refused_with_the_setting_that_names_another_schema() {
    let mut sandbox = Sandbox::with_empty_database(Store::Postgres);
    sandbox.sql("CREATE SCHEMA app; CREATE TABLE app.orders (id integer)");
    for arguments in [&["serve"][..], &["migrate"], &["dispatch", "--once"], &["doctor"]] {
        let exit = sandbox.run(arguments);
        assert_eq!(exit.code, Some(1), "{arguments:?}: {}", exit.stderr);
        let output = exit.stdout + &exit.stderr;
        for text in ["the schema app belongs to another application", "orders", "POSTHASTE_DATABASE_SCHEMA"] {
            assert!(output.contains(text), "{arguments:?}: {output}");
        }
    }

    sandbox.set_env("POSTHASTE_DATABASE_SCHEMA", "billing");
    let migrated = sandbox.run(&["migrate"]);
    assert!(migrated.stdout.starts_with("created the schema"), "{} {}", migrated.stdout, migrated.stderr);
    assert!(migrated.stdout.contains("(schema billing)"), "{}", migrated.stdout);
    let doctor = sandbox.run(&["doctor"]);
    assert_eq!(doctor.code, Some(0), "{}", doctor.stdout);

    let receiver = Receiver::responding(200);
    let service = sandbox.serve();
    let call = format!("SELECT billing.enqueue_webhook('{}', 'invoice.paid', '1')", receiver.url());
    let event_id = sandbox.sql(&call);
    service.wait_until_delivered(&event_id);
    service.stop();
    assert_eq!(sandbox.sql("SELECT count(*) FROM pg_class WHERE relnamespace = 'app'::regnamespace"), "1");
}

//! Writing what attempts led to: the whole batch, with everything that goes with it, in one round trip.

use std::collections::HashSet;

use posthaste_domain::{Decision, Health, LeaseToken, WorkerId};
use posthaste_store::{Settled, Settlement, StoreError};
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::Shared;
use crate::moment::micros;
use crate::session::{Session, Sql};

/// The queue by key, fenced by token. What comes to its end moves from the queue to the endings, what is retried goes
/// to its new place in line. Attempt records, counts, notices and what is known of destinations all derive from the
/// rows that were changed, and retries of one batch get turns of their own; a lease that was lost changes none of them. Claims that have no lease left are forgotten.
pub(crate) static SETTLE: Sql = Sql {
    text: "
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(
        $1::bigint[], $2::uuid[], $3::integer[], $4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::bigint[],
        $9::smallint[], $10::text[], $11::text[], $12::text[], $13::bigint[], $14::smallint[], $15::integer[]
    ) AS i (
        key, token, attempt, retry_us, failure_kind, last_error, started_us, duration_us,
        http_status, error_class, excerpt, trigger, pause_us, health, n
    )
),
ended AS (
    DELETE FROM app.webhook_queue q
    USING input i
    WHERE q.id = i.key AND q.lease_token = i.token AND i.retry_us IS NULL
    RETURNING i.*, q.destination_id, q.attempts AS attempts_before, q.claims,
              q.manual_last_action, q.manual_last_actor, q.manual_last_at
),
retried AS (
    UPDATE app.webhook_queue q
    SET attempts = i.attempt,
        lost_leases = 0,
        last_attempted_at = app.webhook_now() - i.started_us * interval '1 microsecond',
        last_error = i.last_error,
        next_attempt_at = app.webhook_now() + i.retry_us * interval '1 microsecond',
        turn = app.webhook_turn_at(app.webhook_now() + i.retry_us * interval '1 microsecond') + i.n,
        updated_at = app.webhook_now(),
        lease_until = NULL, lease_token = NULL, lease_claim = NULL, lease_owner = NULL
    FROM input i
    WHERE q.id = i.key AND q.lease_token = i.token AND i.retry_us IS NOT NULL
    RETURNING i.*, q.destination_id
),
applied AS MATERIALIZED (
    SELECT key, token, attempt, started_us, duration_us, http_status, error_class, excerpt, trigger, pause_us,
           health, n, destination_id
    FROM ended
    UNION ALL
    SELECT key, token, attempt, started_us, duration_us, http_status, error_class, excerpt, trigger, pause_us,
           health, n, destination_id
    FROM retried
),
endings AS (
    INSERT INTO app.webhook_endings (
        id, updated_at, last_attempted_at, attempts, claims, lost_leases, failure_kind, last_error,
        manual_last_action, manual_last_actor, manual_last_at
    )
    SELECT key, app.webhook_now(), app.webhook_now() - started_us * interval '1 microsecond', attempt, claims, 0,
           failure_kind, last_error, manual_last_action, manual_last_actor, manual_last_at
    FROM ended
),
attempts AS (
    INSERT INTO app.webhook_attempts (
        event_key, destination_id, token, recorded_at, started_at, duration_us, attempt, http_status, trigger,
        worker, error_class, excerpt
    )
    SELECT key, destination_id, token, app.webhook_now(), app.webhook_now() - started_us * interval '1 microsecond',
           duration_us, attempt, http_status, trigger, $16, error_class, excerpt
    FROM applied
),
counted AS (
    INSERT INTO app.webhook_counts (pending, retrying, delivered, failed)
    SELECT -(SELECT count(*) FROM ended),
           (SELECT count(*) FROM retried WHERE attempt = 1)
           - (SELECT count(*) FROM ended WHERE attempts_before > 0),
           (SELECT count(*) FROM ended WHERE failure_kind IS NULL),
           (SELECT count(*) FROM ended WHERE failure_kind IS NOT NULL)
),
notices AS (
    INSERT INTO app.webhook_notices (at, event_keys, delivered, attempts)
    SELECT app.webhook_now(), array_agg(key ORDER BY n), array_agg(failure_kind IS NULL ORDER BY n),
           array_agg(attempt ORDER BY n)
    FROM ended
    HAVING count(*) > 0
),
heard AS MATERIALIZED (
    SELECT destination_id, max(pause_us) AS pause_us, bool_or(health > 0) AS answered,
           (array_agg(health ORDER BY n DESC) FILTER (WHERE health <> 0))[1] AS last_health
    FROM applied
    GROUP BY destination_id
    ORDER BY destination_id
),
destinations AS (
    UPDATE app.webhook_destinations d
    SET paused_until = greatest(
            d.paused_until, app.webhook_now() + h.pause_us * interval '1 microsecond'
        ),
        failing_since = CASE
            WHEN h.last_health > 0 THEN NULL
            WHEN h.last_health < 0 AND h.answered THEN app.webhook_now()
            WHEN h.last_health < 0 THEN coalesce(d.failing_since, app.webhook_now())
            ELSE d.failing_since
        END
    FROM heard h
    WHERE d.id = h.destination_id
          AND (h.pause_us IS NOT NULL
               OR (h.last_health > 0 AND d.failing_since IS NOT NULL)
               OR (h.last_health < 0 AND (d.failing_since IS NULL OR h.answered)))
),
forgotten AS (
    DELETE FROM app.webhook_claims c WHERE c.id = ANY ($17)
)
SELECT n FROM applied",
    types: &[
        Type::INT8_ARRAY,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::INT4_ARRAY,
        Type::TEXT,
        Type::UUID_ARRAY,
    ],
};

/// Which outcomes are on record already. Asked only for those that were not applied; the index is by event.
static RECORDED: Sql = Sql {
    text: "
SELECT a.token
FROM unnest($1::bigint[], $2::uuid[]) AS i (key, token)
JOIN app.webhook_attempts a ON a.event_key = i.key AND a.token = i.token",
    types: &[Type::INT8_ARRAY, Type::UUID_ARRAY],
};

#[derive(Default)]
struct Columns<'a> {
    keys: Vec<i64>,
    tokens: Vec<Uuid>,
    attempts: Vec<i32>,
    retries: Vec<Option<i64>>,
    failure_kinds: Vec<Option<&'a str>>,
    last_errors: Vec<Option<String>>,
    started: Vec<i64>,
    durations: Vec<i64>,
    http_statuses: Vec<Option<i16>>,
    error_classes: Vec<Option<&'a str>>,
    excerpts: Vec<&'a str>,
    triggers: Vec<&'a str>,
    pauses: Vec<Option<i64>>,
    healths: Vec<i16>,
    /// The settlement's place in its batch.
    places: Vec<i32>,
}

impl<'a> Columns<'a> {
    fn push(&mut self, place: usize, settlement: &'a Settlement) {
        let transition = &*settlement.transition;
        let outcome = transition.outcome();
        let retry = match transition.decision() {
            Decision::Retry { after } => Some(micros(after)),
            Decision::Delivered | Decision::Failed(_) => None,
        };
        self.keys.push(transition.key().0);
        self.tokens.push(transition.token().as_uuid());
        self.attempts.push(i32::try_from(transition.attempt()).unwrap_or(i32::MAX));
        self.retries.push(retry);
        self.failure_kinds.push(transition.failure_kind().map(|kind| kind.as_str()));
        self.last_errors.push(transition.last_error());
        self.started.push(micros(settlement.ended_ago.saturating_add(transition.duration())));
        self.durations.push(micros(transition.duration()));
        self.http_statuses.push(outcome.http_status().and_then(|status| i16::try_from(status).ok()));
        self.error_classes.push(outcome.error_class().map(|class| class.as_str()));
        self.excerpts.push(outcome.excerpt().as_str());
        self.triggers.push(transition.trigger().as_str());
        self.pauses.push(transition.pause().map(micros));
        self.healths.push(match outcome.health() {
            Health::Healthy => 1,
            Health::Unhealthy => -1,
            Health::Unknown => 0,
        });
        self.places.push(i32::try_from(place).expect("a batch is small"));
    }
}

pub(crate) async fn settle(
    store: &Shared,
    worker: &WorkerId,
    batch: &[Settlement],
) -> Result<Vec<Settled>, StoreError> {
    if batch.is_empty() {
        return Ok(Vec::new());
    }
    let tokens = || batch.iter().map(|settlement| settlement.transition.token());
    let finished = store.granted.finished_by(tokens());
    let settled = store.sessions.dispatch.with(async |session| {
        let applied = apply(session, worker, batch, &finished).await?;
        let recorded = recorded(session, batch, &applied).await?;
        Ok((applied, recorded))
    });
    let (applied, recorded) = settled.await?;
    store.granted.end(tokens());
    store.notices.unplaced();
    let mut first = applied.clone();
    let answer = |settlement: &Settlement| {
        let token = settlement.transition.token();
        match () {
            () if first.remove(&token) => Settled::Applied,
            // A second time in this batch, or in an earlier one.
            () if applied.contains(&token) || recorded.contains(&token) => Settled::Replayed,
            () => Settled::Stale,
        }
    };
    Ok(batch.iter().map(answer).collect())
}

/// The tokens whose outcome was written. Rows are locked in the order of their keys, whoever locks several: so nobody
/// waits in a circle.
async fn apply(
    session: &Session,
    worker: &WorkerId,
    batch: &[Settlement],
    finished: &[Uuid],
) -> Result<HashSet<LeaseToken>, tokio_postgres::Error> {
    let mut seen = HashSet::with_capacity(batch.len());
    let mut once: Vec<(usize, &Settlement)> =
        batch.iter().enumerate().filter(|(_, it)| seen.insert(it.transition.token())).collect();
    once.sort_by_key(|(_, settlement)| settlement.transition.key());
    let mut columns = Columns::default();
    for (place, settlement) in once {
        columns.push(place, settlement);
    }
    let c = &columns;
    let rows = session
        .transact(
            &SETTLE,
            &[
                &c.keys,
                &c.tokens,
                &c.attempts,
                &c.retries,
                &c.failure_kinds,
                &c.last_errors,
                &c.started,
                &c.durations,
                &c.http_statuses,
                &c.error_classes,
                &c.excerpts,
                &c.triggers,
                &c.pauses,
                &c.healths,
                &c.places,
                &worker.as_str(),
                &finished,
            ],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let place = usize::try_from(row.try_get::<_, i32>(0)?).expect("places are not negative");
            Ok(batch[place].transition.token())
        })
        .collect()
}

/// Of what was not applied, the tokens that have their outcome since before.
async fn recorded(
    session: &Session,
    batch: &[Settlement],
    applied: &HashSet<LeaseToken>,
) -> Result<HashSet<LeaseToken>, tokio_postgres::Error> {
    let (keys, tokens): (Vec<i64>, Vec<Uuid>) = batch
        .iter()
        .map(|settlement| &settlement.transition)
        .filter(|transition| !applied.contains(&transition.token()))
        .map(|transition| (transition.key().0, transition.token().as_uuid()))
        .unzip();
    if keys.is_empty() {
        return Ok(HashSet::new());
    }
    let rows = session.transact(&RECORDED, &[&keys, &tokens]).await?;
    rows.iter().map(|row| Ok(LeaseToken::from_uuid(row.try_get(0)?))).collect()
}

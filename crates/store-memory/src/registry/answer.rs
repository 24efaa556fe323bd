//! Answers that are kept with the changes that they answer.

use async_trait::async_trait;
use posthaste_domain::Timestamp;
use posthaste_store::{AnswerKey, AnswerSlot, Answers, KeptAnswer, StoreError};

use super::AnswerRow;
use crate::MemoryStore;
use crate::state::State;

/// Runs a change and keeps its answer. Changes nothing if the answer is kept already, or if the change fails.
pub(super) fn change<T>(
    state: &mut State,
    now: Timestamp,
    answer: Option<&AnswerSlot<T>>,
    run: impl FnOnce(&mut State) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let is_kept = |slot: &&AnswerSlot<T>| find(state, now, &slot.key).is_some();
    if answer.filter(is_kept).is_some() {
        return Err(StoreError::AnswerKept);
    }
    let value = run(state)?;
    if let Some(slot) = answer {
        let row = AnswerRow { kept: slot.render(&value), expires_at: now.after(slot.keep_for) };
        state.registry.answers.insert(slot.key, row);
    }
    Ok(value)
}

fn find(state: &State, now: Timestamp, key: &AnswerKey) -> Option<KeptAnswer> {
    let row = state.registry.answers.get(key).filter(|row| row.expires_at > now);
    row.map(|row| row.kept.clone())
}

#[async_trait]
impl Answers for MemoryStore {
    async fn find(&self, key: &AnswerKey) -> Result<Option<KeptAnswer>, StoreError> {
        Ok(self.transact(|state, now| find(state, now, key)))
    }

    async fn keep(&self, slot: &AnswerSlot<()>) -> Result<(), StoreError> {
        self.transact(|state, now| change(state, now, Some(slot), |_| Ok(())))
    }
}

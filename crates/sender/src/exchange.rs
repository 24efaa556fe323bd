//! One request on the wire: on a connection that waits, or on a new one.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;

use crate::connect::Connector;
use crate::deadline::{Progress, Stage};
use crate::failure::Failure;
use crate::link::{Http2, Link, Unanswered};
use crate::pool::Pool;
use crate::target::{Origin, Target};

pub(crate) struct Client {
    pub(crate) connector: Connector,
    pub(crate) pool: Arc<Pool>,
}

/// A response whose head has arrived, and the connection that its body comes over.
pub(crate) struct Exchanged {
    pub(crate) response: Response<Incoming>,
    pub(crate) link: Link,
}

impl Client {
    /// Nothing here sends a request again. One that a closed connection handed back untouched goes out on another.
    pub(crate) async fn exchange(
        &self,
        target: &Target,
        mut request: Request<Bytes>,
        progress: &Progress,
    ) -> Result<Exchanged, Failure> {
        let payload = request.body().clone();
        while let Some(link) = self.pool.take(&target.origin).await {
            progress.reached(Stage::Response);
            match self.send(link, target, request).await {
                Err(Unanswered::NeverStarted(untouched)) => request = untouched.map(|()| payload.clone()),
                answered => return answered.map_err(Failure::from),
            }
        }
        let link = self.connector.connect(&target.origin, progress).await?;
        if let Link::Http2(place) = &link {
            self.pool.share(&target.origin, place.link());
        }
        progress.reached(Stage::Response);
        self.send(link, target, request).await.map_err(Failure::from)
    }

    /// Keeps the connection of a response that has been read, unless a part of its request is still to be written.
    pub(crate) fn finish(&self, target: &Target, exchanged: Exchanged) {
        let Exchanged { response, link } = exchanged;
        drop(response);
        match link {
            Link::Http1(link) => self.pool.put(&target.origin, link),
            Link::Http2(place) if !place.is_written() => self.pool.forget(&target.origin, place.link()),
            Link::Http2(_) => {}
        }
    }

    /// Gives up on a response whose body did not end in time: what is left of it would hold up the next.
    pub(crate) fn give_up(&self, target: &Target, exchanged: &Exchanged) {
        if let Link::Http2(place) = &exchanged.link {
            self.pool.forget(&target.origin, place.link());
        }
    }

    async fn send(
        &self,
        mut link: Link,
        target: &Target,
        request: Request<Bytes>,
    ) -> Result<Exchanged, Unanswered> {
        let distrust = match &link {
            Link::Http1(_) => None,
            Link::Http2(place) => Some(Distrust::of(&self.pool, &target.origin, place.link())),
        };
        let response = link.send(target, request).await?;
        if let Some(distrust) = distrust {
            distrust.dispel();
        }
        Ok(Exchanged { response, link })
    }
}

/// Takes a shared connection out of use unless it answers: one that has gone dead would else swallow every request
/// until the system noticed. Also when the deadline passes, which only drops what waits for it.
struct Distrust<'a> {
    pool: &'a Pool,
    origin: &'a Origin,
    link: Option<Http2>,
}

impl<'a> Distrust<'a> {
    fn of(pool: &'a Pool, origin: &'a Origin, link: &Http2) -> Self {
        Self { pool, origin, link: Some(link.clone()) }
    }

    fn dispel(mut self) {
        self.link = None;
    }
}

impl Drop for Distrust<'_> {
    fn drop(&mut self) {
        if let Some(link) = &self.link {
            self.pool.forget(self.origin, link);
        }
    }
}

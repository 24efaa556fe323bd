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

/// A response whose head has arrived, and the connection that its body comes over. Dropped, the connection is not used
/// again: what is left of the body would hold up the next.
pub(crate) struct Exchanged<'a> {
    pub(crate) response: Response<Incoming>,
    pub(crate) link: Link,
    /// None where nobody shares the connection.
    distrust: Option<Distrust<'a>>,
}

impl Client {
    /// Nothing here sends a request again. One that a closed connection handed back untouched goes out on another.
    pub(crate) async fn exchange<'a>(
        &'a self,
        target: &'a Target,
        mut request: Request<Bytes>,
        progress: &Progress,
    ) -> Result<Exchanged<'a>, Failure> {
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

    /// Keeps the connection of a response that has been read to its end, unless a part of its request is still to be
    /// written.
    pub(crate) fn finish(&self, target: &Target, exchanged: Exchanged<'_>) {
        let Exchanged { response, link, distrust } = exchanged;
        drop(response);
        match link {
            Link::Http1(link) => self.pool.put(&target.origin, link),
            Link::Http2(place) if place.is_written() => {
                place.end();
                distrust.into_iter().for_each(Distrust::dispel);
            }
            Link::Http2(_) => {}
        }
    }

    async fn send<'a>(
        &'a self,
        mut link: Link,
        target: &'a Target,
        request: Request<Bytes>,
    ) -> Result<Exchanged<'a>, Unanswered> {
        let distrust = match &link {
            Link::Http1(_) => None,
            Link::Http2(place) => Some(Distrust::of(&self.pool, &target.origin, place.link())),
        };
        let response = link.send(target, request).await?;
        Ok(Exchanged { response, link, distrust })
    }
}

/// Takes a shared connection out of use unless its answer ends: one that has gone dead would else swallow every request
/// until the system noticed, and one that sends more than is read would be reset again and again. Also when the
/// deadline passes, which only drops what waits for it.
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

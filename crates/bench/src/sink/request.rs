//! Parses the requests that the sink receives.

use std::time::Duration;

/// How the sink responds. It is a part of the path of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Responds 200 at once.
    Accept,
    /// Responds 200 after a delay.
    Delay(Duration),
    /// Responds 500 at once.
    Fail,
    /// Never responds.
    Hang,
}

impl Behaviour {
    /// Returns the segment of the path that selects this behaviour.
    pub(crate) fn segment(self) -> String {
        match self {
            Self::Accept => "accept".to_owned(),
            Self::Delay(delay) => format!("delay-{}", delay.as_millis()),
            Self::Fail => "fail".to_owned(),
            Self::Hang => "hang".to_owned(),
        }
    }

    fn parse(segment: &str) -> Option<Self> {
        match segment {
            "accept" => Some(Self::Accept),
            "fail" => Some(Self::Fail),
            "hang" => Some(Self::Hang),
            _ => Some(Self::Delay(Duration::from_millis(segment.strip_prefix("delay-")?.parse().ok()?))),
        }
    }
}

/// The head of a request to `/GROUP/BEHAVIOUR/NUMBER`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestHead<'a> {
    /// The group whose statistics count the request.
    pub(crate) group: &'a str,
    pub(crate) behaviour: Behaviour,
    pub(crate) path: &'a str,
    pub(crate) host: &'a str,
    /// The `webhook-id`, by which the sink recognises duplicates.
    pub(crate) event_id: &'a str,
    /// Length of the head, including the empty line.
    pub(crate) head_bytes: usize,
    pub(crate) body_bytes: usize,
}

/// Parses the head of a request. `None` until the head is complete; an error for a request that the sink does not
/// understand.
pub(crate) fn parse_head(buffer: &[u8]) -> Option<Result<RequestHead<'_>, ()>> {
    let end = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some(parse_complete_head(&buffer[..end]).ok_or(()))
}

fn parse_complete_head(head: &[u8]) -> Option<RequestHead<'_>> {
    let text = std::str::from_utf8(head).ok()?;
    let mut lines = text.split("\r\n");
    let path = lines.next()?.split(' ').nth(1)?;
    let mut segments = path.strip_prefix('/')?.split('/');
    let (group, behaviour) = (segments.next()?, Behaviour::parse(segments.next()?)?);
    let (mut host, mut event_id, mut body_bytes) = ("", "", 0);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("host") {
            host = value;
        } else if name.eq_ignore_ascii_case("webhook-id") {
            event_id = value;
        } else if name.eq_ignore_ascii_case("content-length") {
            body_bytes = value.parse().ok()?;
        }
    }
    Some(RequestHead { group, behaviour, path, host, event_id, head_bytes: head.len() + 4, body_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_is_parsed_once_it_is_complete() {
        let request = b"POST /drain/delay-5/17 HTTP/1.1\r\nHost: 127.0.0.1:80\r\nwebhook-id: msg_1\r\nContent-Length: 2\r\n\r\nok";
        for length in 0..request.len() - 2 {
            assert_eq!(parse_head(&request[..length]), None, "{length}");
        }
        let head = parse_head(request).unwrap().unwrap();
        assert_eq!(head.group, "drain");
        assert_eq!(head.behaviour, Behaviour::Delay(Duration::from_millis(5)));
        assert_eq!((head.host, head.event_id, head.body_bytes), ("127.0.0.1:80", "msg_1", 2));
        assert_eq!(&request[head.head_bytes..], b"ok");
    }

    #[test]
    fn unknown_behaviour_is_an_error() {
        assert_eq!(parse_head(b"POST /drain/dance/1 HTTP/1.1\r\n\r\n"), Some(Err(())));
        assert_eq!(parse_head(b"POST / HTTP/1.1\r\n\r\n"), Some(Err(())));
    }

    #[test]
    fn segments_select_their_behaviour() {
        let delay = Behaviour::Delay(Duration::from_millis(20));
        for behaviour in [Behaviour::Accept, delay, Behaviour::Fail, Behaviour::Hang] {
            assert_eq!(Behaviour::parse(&behaviour.segment()), Some(behaviour));
        }
    }
}

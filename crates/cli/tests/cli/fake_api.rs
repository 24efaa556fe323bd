//! An API that answers as it is told, and remembers what it was asked.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// `GET /v1/webhook-outbox/overview`.
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

pub(crate) struct FakeApi {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// Status and body for a request; the number says how often this line was asked before.
type Answers = dyn Fn(&Asked, usize) -> (u16, String) + Send + Sync;

impl FakeApi {
    pub(crate) fn start(answers: impl Fn(&Asked, usize) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let remembered = Arc::clone(&asked);
        let answers: Arc<Answers> = Arc::new(answers);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (remembered, answers) = (Arc::clone(&remembered), Arc::clone(&answers));
                thread::spawn(move || serve(stream.unwrap(), &remembered, &*answers));
            }
        });
        Self { url, asked }
    }

    /// The same answer to everything.
    pub(crate) fn answering(status: u16, body: &str) -> Self {
        let body = body.to_owned();
        Self::start(move |_, _| (status, body.clone()))
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }
}

fn serve(stream: TcpStream, remembered: &Mutex<Vec<Asked>>, answers: &Answers) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(asked) = read(&mut reader) {
        let nth = {
            let mut remembered = remembered.lock().unwrap();
            let before = remembered.iter().filter(|other| other.line == asked.line).count();
            remembered.push(asked.clone());
            before
        };
        let (status, body) = answers(&asked, nth);
        write(&mut writer, status, &body);
    }
}

pub(crate) fn write(stream: &mut impl Write, status: u16, body: &str) {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
}

pub(crate) fn read(reader: &mut impl BufRead) -> Option<Asked> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let header = |line: &String| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_ascii_lowercase(), value.to_owned())
    };
    let headers: Vec<_> = lines[1..].iter().map(header).collect();
    let mut asked =
        Asked { line: lines[0].trim_end_matches(" HTTP/1.1").to_owned(), headers, body: String::new() };
    let length = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    asked.body = String::from_utf8(body).unwrap();
    Some(asked)
}

/// An event in the API's words.
pub(crate) fn event(id: &str, status: &str, attempts: u32, more: &str) -> String {
    format!(
        r#"{{"event_id":"{id}","event_type":"invoice.paid","delivery_status":"{status}","destination_url":"https://shop.example/hooks","attempts":{attempts},"max_attempts":6,"created_at":"2026-01-31T16:31:02.123456Z","updated_at":"2026-01-31T16:32:02.123456Z"{more}}}"#
    )
}

pub(crate) fn error(code: &str, message: &str) -> String {
    format!(r#"{{"error":{{"code":"{code}","message":"{message}"}}}}"#)
}

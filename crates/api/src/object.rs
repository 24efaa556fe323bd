//! Objects as clients write them, read field by field: each at most once and all of them known. Whoever is refused is
//! told where, and nothing of how it is read here.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{self, Deserializer as _, MapAccess, Visitor};
use serde_json::json;

use crate::error::ApiError;

/// Longest piece of a parser's message that is told; it may quote the request.
const QUOTED_CHARS_MAX: usize = 400;
/// Longest piece of a field's name that is told.
const NAME_CHARS_MAX: usize = 64;

/// How far reading has come, for whoever must say where it stopped.
#[derive(Default)]
pub(crate) struct Place {
    /// Of the element that is being read.
    pub(crate) index: Cell<Option<usize>>,
    at: RefCell<At>,
}

#[derive(Default)]
enum At {
    /// Between fields.
    #[default]
    Nowhere,
    /// The name itself is what is wrong, or that it is missing.
    Name(String),
    Value(&'static str),
}

impl Place {
    /// What the parser did not like, and where: in which element, at which field, on which line.
    pub(crate) fn refusal(&self, error: &serde_json::Error) -> ApiError {
        let (line, column) = (error.line(), error.column());
        let full = error.to_string();
        let spot = format!(" at line {line} column {column}");
        let what = shortened(full.strip_suffix(&spot).unwrap_or(&full), QUOTED_CHARS_MAX);
        let mut details = serde_json::Map::new();
        let mut message = String::from("the body is not what is expected: ");
        if let Some(index) = self.index.get() {
            details.insert("index".to_owned(), json!(index));
            message += &format!("event {index}: ");
        }
        match &*self.at.borrow() {
            At::Nowhere => {}
            At::Name(name) => {
                details.insert("field".to_owned(), json!(name));
            }
            At::Value(field) => {
                details.insert("field".to_owned(), json!(field));
                message += &format!("{field}: ");
            }
        }
        message += &what;
        if line > 0 {
            details.insert("line".to_owned(), json!(line));
            details.insert("column".to_owned(), json!(column));
            message += &spot;
        }
        ApiError::invalid_at(message, details.into())
    }

    fn is(&self, at: At) {
        *self.at.borrow_mut() = at;
    }
}

fn shortened(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The fields of one object, in the order in which they come.
pub(crate) struct Fields<'p> {
    place: &'p Place,
    known: &'static [&'static str],
    seen: Vec<&'static str>,
}

impl<'p> Fields<'p> {
    pub(crate) fn new(place: &'p Place, known: &'static [&'static str]) -> Self {
        place.is(At::Nowhere);
        Self { place, known, seen: Vec::with_capacity(known.len()) }
    }

    /// The next field, whose value is to be read before it is asked for another.
    pub(crate) fn next<'de, A: MapAccess<'de>>(
        &mut self,
        map: &mut A,
    ) -> Result<Option<&'static str>, A::Error> {
        self.place.is(At::Nowhere);
        let Some(name) = map.next_key::<String>()? else { return Ok(None) };
        self.place.is(At::Name(shortened(&name, NAME_CHARS_MAX)));
        let field = self.known.iter().copied().find(|field| *field == name);
        let field = field.ok_or_else(|| de::Error::unknown_field(&name, self.known))?;
        if self.seen.contains(&field) {
            return Err(de::Error::duplicate_field(field));
        }
        self.seen.push(field);
        self.place.is(At::Value(field));
        Ok(Some(field))
    }

    /// When all have been read.
    pub(crate) fn require<E: de::Error>(&self, required: &[&'static str]) -> Result<(), E> {
        match required.iter().copied().find(|field| !self.seen.contains(field)) {
            None => Ok(()),
            Some(missing) => {
                self.place.is(At::Name(missing.to_owned()));
                Err(de::Error::missing_field(missing))
            }
        }
    }
}

/// The text of an object that may hold one, under the only name that is known; without a name it must be empty.
pub(crate) fn optional_text(body: &[u8], known: &'static [&'static str]) -> Result<Option<String>, ApiError> {
    let place = Place::default();
    let mut json = serde_json::Deserializer::from_slice(body);
    let text = json.deserialize_map(Text { place: &place, known });
    let text = text.and_then(|text| json.end().map(|()| text));
    text.map_err(|error| place.refusal(&error))
}

struct Text<'p> {
    place: &'p Place,
    known: &'static [&'static str],
}

impl<'de> Visitor<'de> for Text<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<String>, A::Error> {
        let mut fields = Fields::new(self.place, self.known);
        let mut text = None;
        while fields.next(&mut map)?.is_some() {
            text = map.next_value()?;
        }
        Ok(text)
    }
}

//! Short forms of ids, URLs and texts. Ids and URLs are ASCII, so each character is one column wide.

/// The number of last characters that a shortened id keeps. Ids of the same time begin alike.
const ID_TAIL: usize = 6;

/// Shortens an id to `width` characters: its beginning, `…`, its last six characters. The page shortens ids in the same way.
pub(super) fn shorten_id(id: &str, width: usize) -> String {
    let length = id.chars().count();
    if length <= width {
        return id.to_owned();
    }
    let head = id.chars().take(width.saturating_sub(ID_TAIL + 1));
    head.chain(['…']).chain(id.chars().skip(length - ID_TAIL.min(length))).collect()
}

/// Drops the scheme of a URL: its host says more.
pub(super) fn drop_scheme(url: &str) -> &str {
    url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).unwrap_or(url)
}

/// Cuts an ASCII text to `width` characters, the last of them `…`. Other text is returned whole: its characters may be wider
/// than a column, and the table cuts it between words.
pub(super) fn cut_ascii(text: &str, width: usize) -> String {
    if text.len() <= width || !text.is_ascii() {
        return text.to_owned();
    }
    format!("{}…", text[..width.saturating_sub(1)].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortened_id_keeps_its_first_and_last_characters() {
        let id = "msg_0199a3c87b7e7cc2a0d8f2f3b1b0c4d5";
        assert_eq!(shorten_id(id, 16), "msg_0199a…b0c4d5");
        assert_eq!(shorten_id(id, 36), id);
        assert_eq!(shorten_id("order-17", 16), "order-17");
    }

    #[test]
    fn a_url_without_its_scheme_begins_with_its_host() {
        assert_eq!(drop_scheme("https://shop.example/hooks"), "shop.example/hooks");
        assert_eq!(drop_scheme("http://shop.example/hooks"), "shop.example/hooks");
        assert_eq!(drop_scheme("queue:a"), "queue:a");
    }

    #[test]
    fn a_text_is_cut_within_a_word_and_other_scripts_are_left_to_the_table() {
        assert_eq!(cut_ascii("connect: Connection refused", 14), "connect: Conn…");
        assert_eq!(cut_ascii("HTTP 503: busy", 10), "HTTP 503:…", "a space before the mark is removed");
        assert_eq!(cut_ascii("busy", 4), "busy");
        assert_eq!(cut_ascii("支払済 error", 4), "支払済 error");
    }
}

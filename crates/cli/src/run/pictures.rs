//! Pictures in a prompt: the paths of image files, which the model sees in their place.

use crate::failure::{Failure, Kind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use strata::{ContentPart, Message, Role};

/// How the names of image files end.
const ENDINGS: [&str; 6] = ["bmp", "gif", "jpeg", "jpg", "png", "webp"];

/// The longest path that systems take, in bytes.
const LONGEST: usize = 4096;

/// Where a text names an image file.
#[derive(Debug, PartialEq, Eq)]
struct Mention {
    span: Range<usize>,
    path: PathBuf,
}

fn is_picture(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let known = |ending: &str| ENDINGS.iter().any(|one| one.eq_ignore_ascii_case(ending));
    ending.is_some_and(known) && path.is_file()
}

/// The image files that a text names, in order.
fn mentions(text: &str) -> Vec<Mention> {
    let mut found: Vec<Mention> = Vec::new();
    for (start, word) in words(text) {
        if found.last().is_some_and(|last| start < last.span.end) {
            continue;
        }
        let line = text[start..].lines().next().unwrap_or_default();
        let line = &line[..line.floor_char_boundary(LONGEST)];
        let mention = shell_word(line)
            .or_else(|| bare_word(word))
            .or_else(|| path_with_spaces(line));
        if let Some(Mention { span, path }) = mention {
            let span = start + span.start..start + span.end;
            found.push(Mention { span, path });
        }
    }
    found
}

/// The words of a text, and where they begin.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let begin = text.as_ptr() as usize;
    text.split_whitespace()
        .map(move |word| (word.as_ptr() as usize - begin, word))
}

/// An image named as a shell would read it, with quotes and backslashes: so terminals write what is dropped on them.
fn shell_word(line: &str) -> Option<Mention> {
    let mut path = String::new();
    let mut quote = None;
    let mut end = line.len();
    let mut letters = line.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (None, letter) if letter.is_whitespace() => {
                end = at;
                break;
            }
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), letter) if letter == open => quote = None,
            (None | Some('"'), '\\') => path.push(letters.next()?.1),
            (_, letter) => path.push(letter),
        }
    }
    let path = PathBuf::from(path);
    (quote.is_none() && is_picture(&path)).then_some(Mention { span: 0..end, path })
}

/// An image among the signs of a sentence.
fn bare_word(word: &str) -> Option<Mention> {
    let signs = |letter: char| "\'\"()[]<>,;:!?".contains(letter);
    let start = word.len() - word.trim_start_matches(signs).len();
    let bare = word.trim_matches(signs);
    let bare = bare.strip_suffix('.').unwrap_or(bare);
    let path = PathBuf::from(bare);
    let span = start..start + bare.len();
    is_picture(&path).then_some(Mention { span, path })
}

/// An image whose name has spaces and begins with a folder, as nobody quotes it.
fn path_with_spaces(line: &str) -> Option<Mention> {
    if !["/", "./", "../"]
        .iter()
        .any(|begin| line.starts_with(begin))
    {
        return None;
    }
    let dots = line.match_indices('.').map(|(at, _)| at + 1);
    let mut ends = dots.map(|at| {
        let ending = line[at..].find(|letter: char| !letter.is_alphanumeric());
        ending.map_or(line.len(), |length| at + length)
    });
    ends.find_map(|end| {
        let path = PathBuf::from(&line[..end]);
        is_picture(&path).then_some(Mention { span: 0..end, path })
    })
}

/// A word of the command line, written so that it is still one among others if it names an image.
pub(super) fn word(word: &str) -> String {
    let special = |letter: char| letter.is_whitespace() || "\'\"\\".contains(letter);
    if !word.contains(special) || !is_picture(Path::new(word)) {
        return word.into();
    }
    let escaped = word.chars().flat_map(|letter| {
        let escape = special(letter).then_some('\\');
        escape.into_iter().chain([letter])
    });
    escaped.collect()
}

/// The image files that a text names.
pub(super) fn paths(text: &str) -> impl Iterator<Item = PathBuf> {
    mentions(text).into_iter().map(|mention| mention.path)
}

/// A message of the user, with the files that it names as images, before the text without their names.
pub(super) fn message(text: &str) -> Result<Message, Failure> {
    let mut message = Message::new(Role::User);
    let (mut rest, mut end) = (String::new(), 0);
    for Mention { span, path } in mentions(text) {
        message.parts.push(read(&path)?);
        rest.push_str(&text[end..span.start]);
        end = span.end;
        // One of the two spaces around it.
        if rest.is_empty() || rest.ends_with(char::is_whitespace) {
            end += usize::from(text[end..].starts_with(' '));
        }
    }
    rest.push_str(&text[end..]);
    message.parts.push(ContentPart::Text(rest.trim().into()));
    Ok(message)
}

fn read(path: &Path) -> Result<ContentPart, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::io(path.display(), &error))?;
    Ok(strata::image(bytes))
}

/// A model that does not see, and a picture for it.
pub(super) fn blind(path: &Path) -> Failure {
    let sentence = format_args!("{} is a picture, and the model cannot see", path.display());
    Failure::new(Kind::Usage, sentence)
        .hint("name the model's projector with --mmproj, or use a model that has one")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of the images that a text names, and the text that is left.
    fn read_text(text: &str) -> (Vec<String>, String) {
        let message = message(text).unwrap();
        let mut images = Vec::new();
        for part in &message.parts {
            match part {
                ContentPart::Image(image) => {
                    images.push(String::from_utf8(image.bytes.clone()).unwrap());
                }
                ContentPart::Text(said) => return (images, said.clone()),
                ContentPart::ImageUrl(_) => unreachable!("nobody names one"),
            }
        }
        panic!("{message:?}")
    }

    #[test]
    fn paths_become_images_and_other_words_stay() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "Photo.JPG",
            "my photo (1).png",
            "it's.webp",
            "odd\\name.gif",
        ] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let at = folder.path().to_str().unwrap();
        for (text, images, said) in [
            // As they are, and among the signs of a sentence.
            (
                "what is this? @/Photo.JPG",
                vec!["Photo.JPG"],
                "what is this?",
            ),
            (
                "@/Photo.JPG what is this?",
                vec!["Photo.JPG"],
                "what is this?",
            ),
            ("what's in @/Photo.JPG?", vec!["Photo.JPG"], "what's in ?"),
            (
                "see (@/Photo.JPG), please",
                vec!["Photo.JPG"],
                "see (), please",
            ),
            // As terminals and shells write them.
            ("'@/Photo.JPG' and no.png", vec!["Photo.JPG"], "and no.png"),
            ("a '@/my photo (1).png' b", vec!["my photo (1).png"], "a b"),
            (
                "a \"@/my photo (1).png\" b",
                vec!["my photo (1).png"],
                "a b",
            ),
            (
                "a @/my\\ photo\\ \\(1\\).png b",
                vec!["my photo (1).png"],
                "a b",
            ),
            ("'@/it'\\''s.webp'", vec!["it's.webp"], ""),
            ("@/it\\'s.webp", vec!["it's.webp"], ""),
            ("@/odd\\\\name.gif", vec!["odd\\name.gif"], ""),
            // As nobody quotes them.
            ("a @/my photo (1).png b", vec!["my photo (1).png"], "a b"),
            // Several, in order.
            (
                "compare @/it\\'s.webp with\n@/my photo (1).png and @/Photo.JPG",
                vec!["it's.webp", "my photo (1).png", "Photo.JPG"],
                "compare with\nand",
            ),
            // None.
            ("what's up", vec![], "what's up"),
            ("a \\", vec![], "a \\"),
            ("\"@/no.png", vec![], "\"@/no.png"),
            ("@/no photo.png", vec![], "@/no photo.png"),
            ("@", vec![], "@"),
        ] {
            let (found, rest) = read_text(&text.replace('@', at));
            assert_eq!(found, images, "{text}");
            assert_eq!(rest, said.replace('@', at), "{text}");
        }
    }

    #[test]
    fn a_word_of_the_command_line_is_one_word() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a b.png", "it's \"it\".jpg"] {
            let path = folder.path().join(name);
            std::fs::write(&path, name).unwrap();
            let text = format!("what? {} now", word(path.to_str().unwrap()));
            assert_eq!(read_text(&text), (vec![name.into()], "what? now".into()));
        }
        assert_eq!(word("it's a question"), "it's a question");
        assert_eq!(word("no such.png"), "no such.png");
    }
}

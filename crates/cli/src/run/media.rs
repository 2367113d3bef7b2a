//! Images and audio in a prompt: the paths of files, which the model sees or hears in their place.

use crate::failure::{Failure, Kind};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use strata::{ContentPart, Message, Model, Role};

/// How the names of files end.
const ENDINGS: [(&str, Medium); 10] = [
    ("bmp", Medium::Image),
    ("gif", Medium::Image),
    ("jpeg", Medium::Image),
    ("jpg", Medium::Image),
    ("png", Medium::Image),
    ("webp", Medium::Image),
    ("flac", Medium::Audio),
    ("mp3", Medium::Audio),
    ("ogg", Medium::Audio),
    ("wav", Medium::Audio),
];

/// The longest path that systems take, in bytes.
const LONGEST: usize = 4096;

/// Whether a backslash says that the next letter is no sign. On Windows it stands between folders.
const ESCAPES: bool = cfg!(not(windows));

/// What a file is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Image,
    Audio,
}

impl Medium {
    /// What a file is by its name, if there is one.
    fn of(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?;
        let known = |(one, _): &&(&str, Self)| one.eq_ignore_ascii_case(ending);
        let (_, medium) = ENDINGS.iter().find(known)?;
        path.is_file().then_some(*medium)
    }

    /// Whether a model perceives it.
    pub(super) fn reaches(self, model: &Model) -> bool {
        match self {
            Self::Image => model.profile().sight.is_some(),
            Self::Audio => model.profile().ears.is_some(),
        }
    }

    /// What it is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Audio => "audio",
        }
    }

    /// Why a model that does not perceive it has no use for a file.
    pub(super) fn out_of_reach(self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Image => format!("{path} is a picture, and the model cannot see"),
            Self::Audio => format!("{path} is audio, and the model cannot hear"),
        }
    }
}

/// Where a text names a file.
#[derive(Debug, PartialEq, Eq)]
struct Mention {
    span: Range<usize>,
    path: PathBuf,
    medium: Medium,
}

/// The files that a text names, in order.
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
        if let Some(mention) = mention {
            let span = start + mention.span.start..start + mention.span.end;
            found.push(Mention { span, ..mention });
        }
    }
    found
}

impl Mention {
    /// Of a file whose name says what it is.
    fn new(span: Range<usize>, path: PathBuf) -> Option<Self> {
        let medium = Medium::of(&path)?;
        Some(Self { span, path, medium })
    }
}

/// The words of a text, and where they begin.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let begin = text.as_ptr() as usize;
    text.split_whitespace()
        .map(move |word| (word.as_ptr() as usize - begin, word))
}

/// A file named as a shell would read it, with quotes and backslashes: so terminals write what is dropped on them.
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
            (None | Some('"'), '\\') if ESCAPES => path.push(letters.next()?.1),
            (_, letter) => path.push(letter),
        }
    }
    let path = PathBuf::from(path);
    quote.is_none().then(|| Mention::new(0..end, path))?
}

/// A file among the signs of a sentence.
fn bare_word(word: &str) -> Option<Mention> {
    let signs = |letter: char| "\'\"()[]<>,;:!?".contains(letter);
    let start = word.len() - word.trim_start_matches(signs).len();
    let bare = word.trim_matches(signs);
    let bare = bare.strip_suffix('.').unwrap_or(bare);
    let path = PathBuf::from(bare);
    let span = start..start + bare.len();
    Mention::new(span, path)
}

/// A file whose name has spaces and begins with a folder, as nobody quotes it.
fn path_with_spaces(line: &str) -> Option<Mention> {
    let first = Path::new(line).components().next();
    if matches!(first, None | Some(Component::Normal(_))) {
        return None;
    }
    let dots = line.match_indices('.').map(|(at, _)| at + 1);
    let mut ends = dots.map(|at| {
        let ending = line[at..].find(|letter: char| !letter.is_alphanumeric());
        ending.map_or(line.len(), |length| at + length)
    });
    ends.find_map(|end| {
        let path = PathBuf::from(&line[..end]);
        Mention::new(0..end, path)
    })
}

/// A word of the command line, written so that it is still one among others if it names a file.
pub(super) fn word(word: &str) -> String {
    let special = |letter: char| letter.is_whitespace() || "\'\"\\".contains(letter);
    if !word.contains(special) || Medium::of(Path::new(word)).is_none() {
        return word.into();
    }
    if !ESCAPES {
        // No name has such quotes there.
        return format!("\"{word}\"");
    }
    let escaped = word.chars().flat_map(|letter| {
        let escape = special(letter).then_some('\\');
        escape.into_iter().chain([letter])
    });
    escaped.collect()
}

/// The files that a text names, and what they are.
pub(super) fn files(text: &str) -> impl Iterator<Item = (PathBuf, Medium)> {
    let found = mentions(text).into_iter();
    found.map(|mention| (mention.path, mention.medium))
}

/// A message of the user, with the files that it names and the model perceives before the text without their names.
pub(super) fn message(text: &str, perceives: impl Fn(Medium) -> bool) -> Result<Message, Failure> {
    let mut message = Message::new(Role::User);
    let (mut rest, mut end) = (String::new(), 0);
    let found = mentions(text).into_iter();
    for Mention { span, path, medium } in found.filter(|mention| perceives(mention.medium)) {
        message.parts.push(read(&path, medium)?);
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

fn read(path: &Path, medium: Medium) -> Result<ContentPart, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::io(path.display(), &error))?;
    Ok(match medium {
        Medium::Image => strata::image(bytes),
        Medium::Audio => strata::audio(bytes),
    })
}

/// A file for a model that does not perceive it.
pub(super) fn refused(path: &Path, medium: Medium) -> Failure {
    Failure::new(Kind::Usage, medium.out_of_reach(path))
        .hint("name the model's projector with --mmproj, or use a model that has one")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of the images that a text names, and the text that is left.
    fn read_text(text: &str) -> (Vec<String>, String) {
        let message = message(text, |_| true).unwrap();
        let mut images = Vec::new();
        for part in &message.parts {
            match part {
                ContentPart::Image(image) => {
                    images.push(String::from_utf8(image.bytes.clone()).unwrap());
                }
                ContentPart::Text(said) => return (images, said.clone()),
                ContentPart::Audio(audio) => {
                    images.push(String::from_utf8(audio.bytes.clone()).unwrap());
                }
                ContentPart::ImageUrl(_) => unreachable!("nobody names one"),
            }
        }
        panic!("{message:?}")
    }

    #[test]
    fn paths_become_images_and_other_words_stay() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["Photo.JPG", "my photo (1).png", "it's.webp", "talk.WAV"];
        let odd = ESCAPES.then_some("odd\\name.gif");
        for name in names.into_iter().chain(odd) {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let at = folder.path().to_str().unwrap();
        let plain = [
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
            // As nobody quotes them.
            ("a @/my photo (1).png b", vec!["my photo (1).png"], "a b"),
            // Several, in order.
            (
                "compare @/it's.webp with\n@/my photo (1).png and @/Photo.JPG",
                vec!["it's.webp", "my photo (1).png", "Photo.JPG"],
                "compare with\nand",
            ),
            (
                "what is said in @/talk.WAV, and where is @/Photo.JPG?",
                vec!["talk.WAV", "Photo.JPG"],
                "what is said in , and where is ?",
            ),
            // None.
            ("what's up", vec![], "what's up"),
            ("a \\", vec![], "a \\"),
            ("\"@/no.png", vec![], "\"@/no.png"),
            ("@/no photo.png", vec![], "@/no photo.png"),
            ("@", vec![], "@"),
        ];
        let escaped = [
            (
                "a @/my\\ photo\\ \\(1\\).png b",
                vec!["my photo (1).png"],
                "a b",
            ),
            ("'@/it'\\''s.webp'", vec!["it's.webp"], ""),
            ("@/it\\'s.webp", vec!["it's.webp"], ""),
            ("@/odd\\\\name.gif", vec!["odd\\name.gif"], ""),
            (
                "compare @/it\\'s.webp with\n@/my photo (1).png and @/Photo.JPG",
                vec!["it's.webp", "my photo (1).png", "Photo.JPG"],
                "compare with\nand",
            ),
        ];
        let escaped = ESCAPES.then_some(escaped).into_iter().flatten();
        for (text, images, said) in plain.into_iter().chain(escaped) {
            let (found, rest) = read_text(&text.replace('@', at));
            assert_eq!(found, images, "{text}");
            assert_eq!(rest, said.replace('@', at), "{text}");
        }
    }

    #[test]
    fn what_a_model_does_not_perceive_stays_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.ogg");
        std::fs::write(&path, "sound").unwrap();
        let text = format!("what? {}", path.display());
        let said = message(&text, |medium| medium == Medium::Image).unwrap();
        assert_eq!(said.parts, [ContentPart::Text(text.clone())]);
        let said = message(&text, |medium| medium == Medium::Audio).unwrap();
        assert_eq!(said.parts.len(), 2);
        assert_eq!(files(&text).collect::<Vec<_>>(), [(path, Medium::Audio)]);
    }

    #[test]
    fn a_word_of_the_command_line_is_one_word() {
        let folder = tempfile::tempdir().unwrap();
        let odd = if ESCAPES {
            "it's \"it\".jpg"
        } else {
            "it's it.jpg"
        };
        for name in ["a b.png", odd] {
            let path = folder.path().join(name);
            std::fs::write(&path, name).unwrap();
            let text = format!("what? {} now", word(path.to_str().unwrap()));
            assert_eq!(read_text(&text), (vec![name.into()], "what? now".into()));
        }
        assert_eq!(word("it's a question"), "it's a question");
        assert_eq!(word("no such.png"), "no such.png");
    }
}

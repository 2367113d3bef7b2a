//! Pictures in a prompt: the paths of image files, which the model sees in their place.

use crate::failure::{Failure, Kind};
use std::path::{Path, PathBuf};
use strata::{ContentPart, Message, Role};

/// How the names of image files end.
const ENDINGS: [&str; 6] = ["bmp", "gif", "jpeg", "jpg", "png", "webp"];

/// The file that a word of a prompt names, if it is an image: perhaps in quotes, as terminals write what is dropped on
/// them.
fn picture(word: &str) -> Option<PathBuf> {
    let path = Path::new(word.trim_matches(['\'', '"']));
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    (ENDINGS.contains(&&*ending) && path.is_file()).then(|| path.into())
}

/// The first word of a prompt that names an image file.
pub(super) fn first(text: &str) -> Option<PathBuf> {
    text.split_whitespace().find_map(picture)
}

/// A message of the user, with the files that it names as images, before the text without their names. Files with spaces
/// in their names are found where they are a whole word of the command line.
pub(super) fn message(text: &str) -> Result<Message, Failure> {
    let mut message = Message::new(Role::User);
    let mut rest = Vec::new();
    for word in text.split(' ') {
        match picture(word.trim()) {
            None => rest.push(word),
            Some(path) => message.parts.push(read(&path)?),
        }
    }
    let text = rest.join(" ");
    message.parts.push(ContentPart::Text(text.trim().into()));
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

    #[test]
    fn paths_become_images_and_other_words_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("Photo.JPG");
        std::fs::write(&path, b"pixels").unwrap();
        let text = format!("what is this? '{}' and no.png", path.display());
        let message = message(&text).unwrap();
        let [ContentPart::Image(image), ContentPart::Text(said)] = &message.parts[..] else {
            panic!("{message:?}");
        };
        assert_eq!(image.bytes, b"pixels");
        assert_eq!(said, "what is this? and no.png");
        assert_eq!(first(&text), Some(path));
        assert_eq!(first("a picture.png that is not there"), None);
    }
}

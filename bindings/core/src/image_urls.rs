//! Images that requests name by their addresses: fetched where the model was opened so, and refused otherwise.

use crate::jobs;
use std::time::Instant;
use strata::chat_types::{Fault, Image, ImageUrl};
use strata::{ContentPart, Error, Generate, Message, Prompt};
use strata_store::WebFiles;
use strata_wire::budgets::Budgets;

/// Puts the images into a request that it names by `https:` addresses. They come from public addresses alone, within the limits of
/// a server: so many images, bytes and seconds for all of them.
pub(crate) fn fetch(web: Option<&WebFiles>, request: &mut Generate) -> Result<(), Error> {
    match web {
        None => refuse(request),
        Some(web) => fetch_with(request, |url, longest, by| {
            let fetched = jobs::aside(|| web.get(url, longest, by));
            fetched.map_err(|error| error.to_string())
        }),
    }
}

fn refuse(request: &mut Generate) -> Result<(), Error> {
    let Some(ContentPart::ImageUrl(first)) = urls(request).next() else {
        return Ok(());
    };
    let fault = first.refused("must be a data: URL: images are not fetched");
    Err(Error::from(fault).with_hint("open the model with the option image_urls: true"))
}

fn fetch_with(
    request: &mut Generate,
    get: impl Fn(&str, u64, Instant) -> Result<Vec<u8>, String>,
) -> Result<(), Error> {
    let budgets = Budgets::SERVER;
    let (count, last) = urls(request).fold((0, None), |(n, _), part| (n + 1, Some(part)));
    let most = budgets.image_urls;
    if let Some(ContentPart::ImageUrl(last)) = last
        && count > most
    {
        let problem = format_args!("there are {count} images to fetch, and at most {most} may be");
        return Err(last.refused(problem).into());
    }
    let by = Instant::now() + budgets.image_fetch;
    let mut left = budgets.body_bytes as u64;
    for part in urls(request) {
        if let ContentPart::ImageUrl(wanted) = part {
            let bytes = one(wanted, get(&wanted.url, left, by))?;
            left = left.saturating_sub(bytes.len() as u64);
            let media_type = None;
            *part = ContentPart::Image(Image { media_type, bytes });
        }
    }
    Ok(())
}

fn one(wanted: &ImageUrl, fetched: Result<Vec<u8>, String>) -> Result<Vec<u8>, Fault> {
    let bytes =
        fetched.map_err(|reason| wanted.refused(format_args!("cannot be fetched: {reason}")))?;
    if bytes.is_empty() {
        return Err(wanted.refused("has no bytes"));
    }
    Ok(bytes)
}

/// The parts of a request that are images elsewhere.
fn urls(request: &mut Generate) -> impl Iterator<Item = &mut ContentPart> {
    let messages = request.prompts.iter_mut().flat_map(|prompt| match prompt {
        Prompt::Chat(messages) => messages.as_mut_slice(),
        _ => &mut [],
    });
    let parts = messages.flat_map(|message: &mut Message| &mut message.parts);
    parts.filter(|part| matches!(part, ContentPart::ImageUrl(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata::Role;

    fn asked(count: usize) -> Generate {
        let url = |number| {
            ContentPart::ImageUrl(ImageUrl {
                url: format!("https://pictures.example/{number}"),
                field: format!("messages[0].content[{number}]"),
            })
        };
        let mut message = Message::new(Role::User);
        message.parts = (0..count).map(url).collect();
        Generate::new("", Prompt::Chat(vec![message]))
    }

    #[test]
    fn images_take_the_place_of_their_addresses() {
        let mut request = asked(2);
        fetch_with(&mut request, |url, longest, _| {
            assert!(longest > 0);
            Ok(url.bytes().collect())
        })
        .unwrap();
        let Prompt::Chat(messages) = &request.prompts[0] else {
            panic!("no chat");
        };
        let ContentPart::Image(image) = &messages[0].parts[1] else {
            panic!("{:?}", messages[0].parts);
        };
        assert_eq!(image.bytes, b"https://pictures.example/1");
    }

    #[test]
    fn what_is_not_fetched_is_named() {
        let refused = fetch(None, &mut asked(1)).unwrap_err();
        assert!(refused.to_string().contains("messages[0].content[0]"));
        assert!(
            refused
                .hint()
                .is_some_and(|hint| hint.contains("image_urls"))
        );
        let failed = fetch_with(&mut asked(1), |_, _, _| Err("no such host".into()));
        assert!(failed.unwrap_err().to_string().contains("no such host"));
        let empty = fetch_with(&mut asked(1), |_, _, _| Ok(Vec::new()));
        assert!(empty.unwrap_err().to_string().contains("no bytes"));
        let many = fetch_with(&mut asked(Budgets::SERVER.image_urls + 1), |_, _, _| {
            panic!("fetched")
        });
        assert_eq!(many.unwrap_err().code(), "invalid_argument");
        // This machine and its neighbours are no place to fetch from.
        let web = WebFiles::default();
        let mut near = asked(1);
        if let Prompt::Chat(messages) = &mut near.prompts[0] {
            messages[0].parts = vec![ContentPart::ImageUrl(ImageUrl {
                url: "https://127.0.0.1:9/a.png".into(),
                field: "messages[0].content[0]".into(),
            })];
        }
        assert!(fetch(Some(&web), &mut near).is_err());
        assert!(fetch(None, &mut asked(0)).is_ok());
    }
}

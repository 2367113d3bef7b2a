//! `/v1/rerank` and `/rerank`, in the words that Jina began and llama-server and vLLM took over.

use crate::answer::Reply;
use crate::call::Call;
use crate::request_fields::model;
use alloc::boxed::Box;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json};
use strata_chat::{Fault, Ranking, Rerank};

pub(crate) fn open(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let model = model(&mut fields)?;
    let query = fields.string("query")?;
    let mut documents = Vec::new();
    // Text Embeddings Inference has another name for them, and answers with a plain list.
    let tei = fields.peek("documents").is_none() && fields.peek("texts").is_some();
    let name = if tei { "texts" } else { "documents" };
    for (path, item) in fields.items(name)? {
        documents.push(match item {
            Json::String(text) => text,
            item => {
                let mut document = path.object(item)?;
                let text = document.string("text")?;
                document.finish()?;
                text
            }
        });
    }
    if documents.is_empty() {
        let path = fields.at(name);
        return Err(Fault::field(&path, format_args!("must not be empty")));
    }
    let top_n = fields.maybe_integer("top_n", 1..=i64::from(u32::MAX))?;
    let wanted = if tei {
        "return_text"
    } else {
        "return_documents"
    };
    let return_documents = fields.maybe_boolean(wanted)?.unwrap_or(false);
    fields.ignore(&["user"]);
    fields.finish()?;
    let request = Rerank {
        model,
        query,
        documents,
        top_n: top_n.map(|n| n as usize),
        return_documents,
    };
    let asked = request.clone();
    Ok(Call::Rerank(
        request,
        Box::new(move |ranking| write(ranking, &asked, tei)),
    ))
}

fn write(ranking: &Ranking, asked: &Rerank, tei: bool) -> Reply {
    let mut order: Vec<(usize, f32)> = ranking.scores.iter().copied().enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    order.truncate(asked.top_n.unwrap_or(usize::MAX));
    let results = order.into_iter().map(|(index, score)| {
        let key = if tei { "score" } else { "relevance_score" };
        let result = Json::object([("index", index.into()), (key, score.into())]);
        let text = asked.documents.get(index);
        match text.filter(|_| asked.return_documents) {
            Some(text) if tei => result.with("text", text.as_str()),
            Some(text) => result.with("document", Json::object([("text", text.as_str().into())])),
            None => result,
        }
    });
    if tei {
        return Reply::json(&Json::array(results));
    }
    Reply::json(&Json::object([
        ("object", "list".into()),
        ("model", ranking.model.as_str().into()),
        ("results", Json::array(results)),
        (
            "usage",
            Json::object([
                ("prompt_tokens", ranking.tokens.into()),
                ("total_tokens", ranking.tokens.into()),
            ]),
        ),
    ]))
}

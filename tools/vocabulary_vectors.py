"""Make the published vocabularies of crates/tokenizer/tests/published: tokenizer.json and tokenizer.model files, and the ids
that Hugging Face `tokenizers` and SentencePiece give with them.

    pip install tokenizers sentencepiece protobuf gguf
    python tools/vocabulary_vectors.py --out crates/tokenizer/tests/published

NAME.json or NAME.model is the vocabulary; NAME.ids has one line for each text: the text as JSON, a tab, the ids.
Deterministic.
"""

import argparse
import io
import json
from pathlib import Path

import token_vectors as vectors


def write(folder, name, tokenizer, texts):
    tokenizer.save(str(folder / f"{name}.json"), pretty=False)
    vectors.write_ids(folder / f"{name}.ids", [(t, tokenizer.encode(t).ids) for t in texts])


def byte_level(folder, texts):
    """Qwen2's pattern, a control and a user-defined token, nothing around a text."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers as pre

    vocab, merges = vectors.byte_level_vocab()
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(vocab)}, merges))
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
               r"\s+(?!\S)|\s+")
    tokenizer.pre_tokenizer = pre.Sequence([pre.Split(Regex(pattern), "isolated"),
                                            pre.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.add_special_tokens([AddedToken("<|im_end|>", normalized=False)])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False)])
    write(folder, "qwen2", tokenizer, texts + ["a<|im_end|>b", "<tool> c"])


def train(kind, **options):
    import sentencepiece as sp

    lines = [l for l in vectors.PROSE.splitlines() if l] * 3 + [t for t in vectors.TEXTS if t.strip() and "\0" not in t]
    blob = io.BytesIO()
    sp.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=blob, model_type=kind, vocab_size=700,
                                  minloglevel=2, num_threads=1, hard_vocab_limit=False, character_coverage=0.98, **options)
    return blob.getvalue()


def sentencepiece_bpe(folder, texts):
    """As Llama 2: the SentencePiece model, and what transformers makes of it."""
    import sentencepiece as sp
    from sentencepiece import sentencepiece_model_pb2 as pb
    from tokenizers import AddedToken, Tokenizer, models, normalizers, processors

    blob = train("bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False)
    (folder / "llama.model").write_bytes(blob)
    processor = sp.SentencePieceProcessor(model_proto=blob)
    vectors.write_ids(folder / "llama.model.ids", [(t, [1] + processor.encode(t)) for t in texts])
    pieces = pb.ModelProto.FromString(blob).pieces
    vocab = {p.piece: i for i, p in enumerate(pieces)}
    merges = []
    for p in pieces:
        splits = [(p.piece[:i], p.piece[i:]) for i in range(1, len(p.piece))]
        merges += [(p.score, split) for split in splits if split[0] in vocab and split[1] in vocab and p.type == 1]
    merges = [split for _, split in sorted(merges, key=lambda m: -m[0])]
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in ("<unk>", "<s>", "</s>")])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    write(folder, "llama", tokenizer, [t for t in texts if t])


def unigram(folder, texts):
    """As T5, with a character map."""
    import tempfile

    import sentencepiece as sp
    from tokenizers import SentencePieceUnigramTokenizer

    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for source, target in vectors.RULES:
            rules.write(" ".join(f"{ord(c):X}" for c in source) + "\t" + " ".join(f"{ord(c):X}" for c in target) + "\n")
        rules.flush()
        blob = train("unigram", normalization_rule_tsv=rules.name, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (folder / "t5.model").write_bytes(blob)
    texts = [t for t in texts if t not in ("ab" * 20, "a" * 50)]  # equally good ways, chosen differently
    processor = sp.SentencePieceProcessor(model_proto=blob)
    vectors.write_ids(folder / "t5.model.ids", [(t, processor.encode(t)) for t in texts])


def wordpiece(folder, texts):
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers as pre, processors

    normalizer, splitter = normalizers.BertNormalizer(lowercase=True), pre.BertPreTokenizer()
    vocab = vectors.wordpiece_vocab(normalizer, splitter)
    tokenizer = Tokenizer(models.WordPiece({t: i for i, t in enumerate(vocab)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in vocab[:5]])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    write(folder, "bert", tokenizer, texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    texts = [t for t in vectors.TEXTS + vectors.random_texts(40, 17) if "\0" not in t]
    byte_level(folder, texts)
    sentencepiece_bpe(folder, texts)
    unigram(folder, texts)
    wordpiece(folder, texts)


if __name__ == "__main__":
    main()

"""A tokenizer made here, from a few sentences: byte-level BPE with a chat template, nothing downloaded."""

from __future__ import annotations

from functools import lru_cache

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SAMPLE = [
    "The quick brown fox jumps over the lazy dog near the river bank every morning.",
    "What is the value of the key? The value of the key amber is 4821.",
    "One line follows another line; copy the line that starts with the number 17.",
    "Answer with the number only. The number is 305.",
    '{"alpha": "1234", "beta": "5678"}',
]
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
TRIMMING_TEMPLATE = TEMPLATE.replace("message['content']", "message['content'] | trim")


@lru_cache(maxsize=None)
def tiny_tokenizer(vocabulary: int = 400, template: str | None = TEMPLATE) -> PreTrainedTokenizerFast:
    """Vocabulary of at most `vocabulary` ids; eos and pad are <|end|>."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SAMPLE, trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>")
    wrapped.chat_template = template
    return wrapped

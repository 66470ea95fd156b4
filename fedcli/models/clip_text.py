"""CLIP's text tower behind learned words: prompts before class names become the vectors that images
are compared with.

Source: CLIP as in clip.py; learned words of Zhou, Yang, Loy and Liu, "Learning to prompt for
vision-language models", arXiv 2109.01134, Eqs. 1-2, with the class at the end and one context for
all classes.

Only the words of the class names are kept of the vocabulary: 25 million parameters less to keep in
memory and to save.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import FedcliError, UsageError
from .network import Network

CONTEXT = 77  # positions of the text tower
PROMPT = "a photo of a"  # CLIP's own, before a class name and a full stop


class TextTower(nn.Module):
    """CLIP's frozen text tower for the names of some classes."""

    start: Tensor  # [W] the embedded start token
    prompt: Tensor  # [L, W] the embedded words of PROMPT, in no saved file
    last: Tensor  # [C] position of every class's end token in words
    words: Tensor  # [C, L, W] embedded tokens of "name." and the end token, zeros after it

    def __init__(self, clip: Any, names: list[str]):
        super().__init__()
        self.transformer = clip.transformer
        self.ln_final = clip.ln_final
        self.positional_embedding = clip.positional_embedding
        self.text_projection = clip.text_projection
        self.logit_scale = clip.logit_scale
        self.names = names
        tokenizer = _tokenizer()
        self.first = tokenizer.sot_token_id
        self.sentences = []
        for name in names:
            tokens = tokenizer.encode(f"{name.replace('_', ' ')}.")
            self.sentences.append([*tokens, tokenizer.eot_token_id])
        self.ends = tuple(len(sentence) - 1 for sentence in self.sentences)
        width = clip.ln_final.weight.numel()
        self.register_buffer("start", torch.zeros(width))
        self.register_buffer("last", torch.tensor(self.ends), persistent=False)
        self.register_buffer("words", torch.zeros(len(names), max(self.ends) + 1, width))
        used = sorted({self.first}.union(*self.sentences))
        rows = torch.randn(len(used), width) * 0.02  # CLIP's own start
        self.embed(dict(zip(used, rows, strict=True)))
        # of its own: the draws after this one stay as they are
        stream = torch.Generator().manual_seed(0)
        prompt = torch.randn(
            len(tokenizer.encode(PROMPT)),
            width,
            generator=stream,
        )
        self.register_buffer("prompt", prompt * 0.02, persistent=False)
        self.requires_grad_(False)

    def embed(self, table: Any) -> None:
        """Copy the words' embeddings from a table by token: rows of [vocabulary, W], or a dict."""
        self.start.copy_(table[self.first])
        for row, sentence in zip(self.words, self.sentences, strict=True):
            for position, token in enumerate(sentence):
                row[position] = table[token]
        if isinstance(table, Tensor):
            self.prompt.copy_(table[_tokenizer().encode(PROMPT)])

    @torch.no_grad()
    def plain(self) -> Tensor:
        """Unit vectors [C, D] of "a photo of a NAME."."""
        return F.normalize(self(self.prompt[None])[0], dim=-1)

    def forward(self, context: Tensor) -> Tensor:
        """Learned words [N, length, W] before every class name -> texts [N, C, D]."""
        count, length = context.shape[:2]
        classes = len(self.words)
        start = self.start.expand(count, classes, 1, -1)
        learned = context[:, None].expand(-1, classes, -1, -1)
        words = self.words.expand(count, -1, -1, -1)
        x = torch.cat([start, learned, words], 2).flatten(0, 1)  # [N*C, 1 + length + L, W]
        positions = x.shape[1]  # the tower is causal: what would come after these changes nothing
        mask = torch.full((positions, positions), -torch.inf, device=x.device).triu(1)
        x = self.transformer(x + self.positional_embedding[:positions], attn_mask=mask)
        ends = self.last.repeat(count) + 1 + length  # [N*C]
        x = self.ln_final(x)[torch.arange(len(x), device=x.device), ends]
        return (x @ self.text_projection).unflatten(0, (count, classes))


class PromptHead(nn.Module):
    """Logits by the similarity of an image's tokens to texts, each a class name after learned
    words.

    Args:
        text: the tower, which belongs to the network and not to this head.
        count: N, prompts.
        length: learned words in each.
    """

    def __init__(self, text: TextTower, count: int, length: int):
        super().__init__()
        if 1 + length + text.words.shape[1] > CONTEXT:
            _, longest = max(zip(text.ends, text.names, strict=True))
            exceeding = f"{length} learned words and the class {longest!r}"
            sentence = f"{exceeding} exceed the {CONTEXT} positions of CLIP's texts"
            raise UsageError(sentence, "use fewer learned words, or shorter class names")
        self._text = (text,)  # no submodule: the network has it already
        # N parameters [length, W], shared by all classes
        self.context = nn.ParameterList()
        for _ in range(count):
            self.context.append(nn.init.normal_(torch.empty(length, len(text.start)), std=0.02))

    @property
    def scale(self) -> Tensor:
        """CLIP's inverse temperature."""
        return self._text[0].logit_scale.exp()

    def texts(self) -> Tensor:
        """Unit vectors [N, C, D]."""
        return F.normalize(self._text[0](torch.stack(list(self.context))), dim=-1)

    def similarity(self, tokens: Tensor) -> Tensor:
        """Cosines [B, S, C, M, N] of tokens [B, S, M, D]."""
        return torch.einsum(
            "bsmd,ncd->bscmn",
            F.normalize(tokens, dim=-1),
            self.texts(),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [B, C]: scale times the mean cosine over slabs, positions and prompts."""
        # a mean of cosines is a cosine of means, unnormalised
        return self.of_direction(F.normalize(tokens, dim=-1).mean((1, 2)))

    def of_direction(self, direction: Tensor) -> Tensor:
        """Logits [B, C] by the mean of the tokens' unit vectors [B, D]."""
        return self.scale * direction @ self.texts().mean(0).T


class MeanDirection(nn.Module):
    """The mean of an image's tokens, each made a unit vector first: [B, D]."""

    def __init__(self, tower: nn.Module):
        super().__init__()
        self.tower = tower

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(self.tower(x).float(), dim=-1).mean((1, 2))


class TextHead(nn.Module):
    """scale times the mean cosine between an image's tokens and the class texts, from the tokens'
    mean direction.
    """

    def __init__(self, prompts: PromptHead):
        super().__init__()
        self.prompts = prompts

    def forward(self, direction: Tensor) -> Tensor:
        return self.prompts.of_direction(direction)  # [B, C]


def freeze(net: Network, *, slices: bool = True) -> None:
    """Turn a CLIP network to tokens, of which nothing trains, or the slice projection of volumes
    alone.

    Raises UsageError for another network.
    """
    if not hasattr(net, "make_prompts"):
        raise UsageError("learned prompts need a CLIP network", "--model clip-vit-b16")
    net.tokens = True
    for name, parameter in net.named_parameters():
        if not slices or not name.startswith("backbone.slices."):
            parameter.requires_grad_(False)


def prompted(net: Network, length: int, *, slices: bool = True) -> None:
    """Freeze a CLIP network so and give it one context of so many learned words. Raises
    UsageError.
    """
    freeze(net, slices=slices)
    net.backbone = MeanDirection(net.backbone)
    net.head = TextHead(net.make_prompts(1, length))


def open_clip() -> Any:
    """The package, imported only where it is needed because that takes seconds. Raises FedcliError
    without it.
    """
    try:
        import open_clip as package
    except ImportError:
        sentence = "CLIP networks need the package open_clip_torch"
        raise FedcliError(sentence, "pip install 'fedcli[clip]'") from None
    return package


@cache
def _tokenizer() -> Any:
    return open_clip().tokenizer.SimpleTokenizer()

"""Say it as the field says it: words that stand for a standard term, and that term.

A guard looks for them in the text of the lessons, in docstrings and in the text of panels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

INSTEAD = {
    r"laws?": "distribution, variational posterior or prior",
    r"prices?|pays?|paid|charges?|charged|bills?": "KL term, complexity term or penalty",
    r"costs?": "compute, time, memory; for a posterior: KL term",
    r"dear|dearer": "expensive",
    r"anew": "again, another",
    r"strangers?|strange (?:inputs|images)|inputs from elsewhere": "out-of-distribution inputs",
    r"(?:training|test|data) rows?|rows? of (?:the|a) (?:data|batch|minibatch)": "examples",
    r"sure|surer|unsure|sureness": "confident, uncertain",
    r"spread|spreads": "standard deviation, epistemic uncertainty",
    r"noise (?:of|in) the data": "observation noise, aleatoric uncertainty",
    r"each weight on its own": "mean-field, fully factorised",
    r"hangs? together": "correlated",
    r"between the clusters": "in-between uncertainty",
    r"fits itself": "empirical Bayes",
    r"by heart": "memorising, overfitting",
    r"committees?": "ensemble",
    r"(?<!ensemble )members?": "ensemble member",
    r"weight averaging": "weight scaling; SWA is stochastic weight averaging",
    r"(?:nets|networks|models) side by side": "batched networks",
    r"nobody": "a plain sentence without a person",
    r"knows? nothing of|does not want|do not want": "a plain sentence without a person",
}

# Phrases in which such a word means what it says elsewhere too, with the reason.
EXCEPTIONS = {
    "law of total variance": "the theorem's name",
    "Price's theorem": "a name",
    "stochastic weight averaging": "the method SWA",
    "for each row costs": "a title; its table has milliseconds",
    "log cost": "time or memory, as the sentence before says",
}

DECISION = re.compile(
    r"abstain|cost_of|no answer costs|expected cost|mean cost|answers? costs?|Chow|loss matrix",
    re.I,
)
"""What speaks of decisions (lesson 15): a cost is the standard term there."""

_WORDS = {re.compile(rf"\b(?:{word})\b", re.I): term for word, term in INSTEAD.items()}
_ALLOWED = re.compile("|".join(map(re.escape, EXCEPTIONS)), re.I)


def dialect(text: str) -> Iterator[str]:
    """Each word of ``text`` that has a standard term, with some context and that term."""
    text = _ALLOWED.sub("", text)
    decides = DECISION.search(text)
    for pattern, term in _WORDS.items():
        if decides and term == INSTEAD["costs?"]:
            continue
        for match in pattern.finditer(text):
            begin = max(0, match.start() - 30)
            end = match.end() + 30
            around = " ".join(text[begin:end].split())
            yield f"{match[0]!r} in '… {around} …': say {term}"

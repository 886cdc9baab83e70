# ruff: noqa: RUF001  letters of many scripts are meant as such
"""Language of a text: by its script, or by the words that every sentence needs. Pure, and a guess.

Scripts decide where they can. Of the languages in Latin letters those below are told apart; short
texts, code and every other language are `unknown`.
"""

import re
from collections import Counter

UNKNOWN = "unknown"
LOOKED_AT = 2048  # characters

_BLOCKS = 7  # sorts of script: numbers 1 to 7 in the table below
_CYRILLIC, _GREEK, _HEBREW, _ARABIC, _INDIC, _THAI, _EAST = range(1, _BLOCKS + 1)
# The upper byte of a UTF-16 code unit names its block of 256 characters.
_BLOCK_OF = bytes.maketrans(
    bytes([0x04, 0x03, 0x05, 0x06, 0x09, 0x0E, *range(0x30, 0x32), *range(0x4E, 0xD8)]),
    bytes(range(1, 7)) + bytes([_EAST] * (2 + 0xD8 - 0x4E)),
)
_KANA = re.compile("[\u3041-\u30ff]")
_HANGUL = re.compile("[\uac00-\ud7a3]")

# The first whose letters occur in the text; a language without letters is what is left.
_BY_LETTERS: dict[int, tuple[tuple[str, str], ...]] = {
    _CYRILLIC: (("uk", "їєі"), ("ru", "")),
    _GREEK: (("el", "ςτνια"),),
    _HEBREW: (("he", "יוהלא"),),
    _ARABIC: (("fa", "پچژگ"), ("ar", "")),
    _INDIC: (("bn", "ািে"), ("hi", "ािे")),
    _THAI: (("th", "านรเก"),),
}

# Words that most sentences have. One that several languages have counts for each.
_WORDS = {
    "en": (
        "the a an and or of to in on at by for from with as is are was be it that this these you"
        " your i my we he she they his their not if what how when where who which why does do did"
        " can will would should has have please me into each all there"
    ),
    "de": (
        "der die das den dem des ein eine einen einer und oder ist sind nicht mit auf für von zu im"
        " in an als sich wie was wann wo wer ich du sie er wir mir bitte wird werden hat haben auch"
        " nach bei aus den folgenden diese dieser kann über zum zur es"
    ),
    "fr": (
        "le la les un une des du de et ou est sont dans en pour par que qui ne pas avec sur ce cet"
        " cette ces je tu il elle nous vous mon ma au aux comment quel quelle plus se suivant être"
        " fait deux trois à"
    ),
    "es": (
        "el la los las un una unos y o es son en de del al por para con que no se lo su sus como"
        " cómo qué cuál más este esta estos mi yo me pero siguiente está tres dos a"
    ),
    "it": (
        "il lo la i gli le un una uno e o è sono in di del della dei da dal per con che non si come"
        " qual quale cosa più questo questa mio mia anche nel nella alla al seguente tre due a"
    ),
    "pt": (
        "o a os as um uma e ou é são em de do da dos das no na por para com que não se como qual"
        " mais este esta meu minha seu eu ao à seguinte três dois você"
    ),
    "nl": (
        "de het een en of is zijn in van op te voor met dat die niet aan ook maar er hoe wat wie"
        " waar ik je mijn deze dit naar bij als om kan wordt worden volgende drie twee"
    ),
    "pl": (
        "i w na nie się jest są że z ze do to jak co o od przez czy dla po za tego jego mój mojego"
        " ten ta te tym lub oraz mogę który która poniższy trzech dwa jakie proszę"
    ),
    "tr": (
        "ve veya bir bu şu için ile da de ne nasıl çok olarak gibi daha mi mı değil var yok kadar"
        " ben sen olan şekilde her ya en sonra aşağıdaki üç iki lütfen"
    ),
    "sv": (
        "och eller att det den de en ett som på är var av för med i inte till från om har jag du"
        " hur vad kan min mitt detta denna följande tre två vi ska"
    ),
    "cs": (
        "a se je jsou na že v ve s z ze k do o pro by ale není jak co který která jako od po tak"
        " když tento tato můj mého následující tři dva nebo prosím"
    ),
    "vi": (
        "và là của có không cho được một các trong với người này những đã để khi tôi bạn về ra"
        " như thế nào hãy sau làm văn ba hai"
    ),
    "id": (
        "yang dan atau di ke itu ini dengan untuk dari tidak adalah pada dalam akan saya anda apa"
        " bagaimana bisa sebuah tiga dua berikut oleh juga"
    ),
}
_LANGUAGES_OF: dict[str, list[str]] = {}
for _language, _text in _WORDS.items():
    for _word in set(_text.split()):
        _LANGUAGES_OF.setdefault(_word, []).append(_language)
_KNOWN = frozenset(_LANGUAGES_OF)

LANGUAGES = (
    *_WORDS,
    *(name for names in _BY_LETTERS.values() for name, _ in names),
    *("ja", "ko", "zh", UNKNOWN),
)

_FEWEST_WORDS = 2  # different ones
_LEAD = 1.25  # of the first over the second


def language(text: str) -> str:
    """One of LANGUAGES for the beginning of a text."""
    text = text[:LOOKED_AT]
    if not text.isascii():
        found = _by_script(text)
        if found is not None:
            return found
    return _by_words(text)


def _by_script(text: str) -> str | None:
    """The language whose script holds a fifth of the text; ideographs say more than letters."""
    blocks = text.encode("utf-16-le", "replace")[1::2].translate(_BLOCK_OF)
    counts = [blocks.count(block) for block in range(_BLOCKS + 1)]
    counts[_EAST] *= 2
    most = max(range(1, _BLOCKS + 1), key=counts.__getitem__)
    if counts[most] * 5 < len(text) - text.count(" "):
        return None
    if most == _EAST:
        return _eastern(text)
    by_letters = _BY_LETTERS[most]
    return next((name for name, some in by_letters if not some or set(some) & set(text)), None)


def _eastern(text: str) -> str:
    if _HANGUL.search(text):
        return "ko"
    return "ja" if _KANA.search(text) else "zh"


def _by_words(text: str) -> str:
    found = _KNOWN.intersection(text.lower().split())
    votes = Counter(name for word in found for name in _LANGUAGES_OF[word])
    if not votes:
        return UNKNOWN
    (first, most), (_, second) = (*votes.most_common(2), ("", 0))[:2]
    return first if most >= _FEWEST_WORDS and most >= second * _LEAD else UNKNOWN

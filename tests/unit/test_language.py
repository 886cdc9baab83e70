# ruff: noqa: RUF001  letters of many scripts are meant as such
"""Languages are told by their script or by the words that sentences need."""

import pytest

from orchestrator.language import LANGUAGES, LOOKED_AT, language

SENTENCES = {
    "en": "How do I change the password of my account?",
    "de": "Bitte fasse den folgenden Text kurz zusammen.",
    "fr": "Comment est-ce que je peux changer le mot de passe ?",
    "es": "¿Cómo puedo cambiar la contraseña de mi cuenta?",
    "it": "Come posso cambiare la password del mio account?",
    "pt": "Como posso mudar a senha da minha conta?",
    "nl": "Hoe kan ik het wachtwoord van mijn account wijzigen?",
    "pl": "Jak mogę zmienić hasło do mojego konta?",
    "tr": "Bu hesap için şifre nasıl değiştirilir ve ne kadar sürer?",
    "sv": "Hur kan jag ändra lösenordet för det här kontot?",
    "cs": "Jak se dá změnit heslo k účtu a co je to?",
    "vi": "Làm thế nào để tôi đổi mật khẩu của tài khoản này?",
    "id": "Bagaimana cara mengubah kata sandi untuk akun saya?",
    "uk": "Як змінити пароль мого облікового запису?",
    "ru": "Как изменить пароль?",
    "el": "Πώς αλλάζω τον κωδικό;",
    "he": "איך אני משנה את הסיסמה?",
    "fa": "چگونه رمز عبور را تغییر دهم؟",
    "ar": "كيف أغير كلمة المرور؟",
    "bn": "আমি কীভাবে পাসওয়ার্ড পরিবর্তন করব?",
    "hi": "मैं पासवर्ड कैसे बदलूं?",
    "th": "ฉันจะเปลี่ยนรหัสผ่านได้อย่างไร",
    "ja": "次の文章を要約してください。",
    "ko": "비밀번호를 어떻게 바꾸나요?",
    "zh": "请总结以下文章。",
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_sentence_is_told(name: str) -> None:
    assert language(SENTENCES[name]) == name


def test_every_language_has_its_sentence() -> None:
    assert {*LANGUAGES} == {*SENTENCES, "unknown"}


@pytest.mark.parametrize("text", ["", "hello", "x = foo(bar)[3] + 1", "12345", "😀😀😀", "\ud800"])
def test_the_rest_is_unknown(text: str) -> None:
    assert language(text) == "unknown"


def test_only_the_beginning_counts() -> None:
    assert language("§" * LOOKED_AT + SENTENCES["de"]) == "unknown"

# ruff: noqa: RUF001  letters of many scripts are meant as such
"""Intent: what an instruction asks to do with a text, by its verbs. Pure, and a guess.

The four that decide how much an answer copies: an edit nearly all, an extract much, a summary some,
a translation hardly anything. Where a fleet needs its own words it writes `last_user`.
"""

from orchestrator.pattern import PatternSet

INTENTS = ("edit", "extract", "summarize", "translate")
# Characters at either end of a message: instructions stand before or after their text, and a long
# text holds every verb somewhere.
LOOKED_AT = 300

# RE2: beginnings of words; `~` is where a word begins, in any script. Chinese, Japanese, Korean and
# Thai write no spaces.
_STEMS = {
    "edit": (
        r"~(?:edit|fix|refactor|rename|rewrite|rephrase|replace|reformat|proofread|simplif|convert"
        r"|modif|improve|optimi[sz]e|correct(?: |$)|debug|migrat|polish|paraphras)"
        r"|~(?:change|update|add|remove|delete|insert|clean up) (?:the|this|a|an|all"
        r"|any|it|my|these|every|type|error|docstring|comment)\w*"
        r"|~(?:ändere|bearbeite|korrigiere|verbessere|überarbeite|umbenennen|benenne|ersetze|entferne"
        r"|formuliere|füge|refaktor)"
        r"|~(?:corrige|modifi|remplace|reformul|réécri|améliore|renomme|supprime|ajoute)"
        r"|~(?:edita|cambia|reemplaza|reescrib|mejora|renombra|elimina|añad|agrega)"
        r"|~(?:correggi|riscriv|sostituisci|migliora|rinomina|rimuovi|aggiungi)"
        r"|~(?:corrij|altere|substitu|reescrev|melhor[ea]|renomei|remov|adicione)"
        r"|~(?:bewerk|herschrijf|vervang|verbeter|hernoem|verwijder|voeg)"
        r"|~(?:popraw|zmień|edytuj|zastąp|przepisz|usuń|dodaj)"
        r"|~(?:düzelt|değiştir|düzenle|yeniden yaz|kaldır|ekle)"
        r"|~(?:исправ|измени|отредактир|перепиш|замени|переимен|удали|добавь|улучши)"
        r"|~(?:виправ|зміни|відредаг|заміни|видали|додай)"
        r"|修改|改写|改寫|重写|重寫|编辑|編輯|替换|替換|润色|潤色|修复|修復|重构|重構|校对|校對"
        r"|修正|書き換え|書き直|編集|置き換え|校正|変更して|リファクタ"
        r"|수정|고쳐|바꿔|편집|다듬|교정|리팩"
        r"|عدّل|عدل|صحح|صحّح|غيّر|أعد كتابة|تعديل|تصحيح|सुधार|बदल|संपादित|แก้ไข|ปรับปรุง|ערוך|תקן|שנה את"
    ),
    "extract": (
        r"~(?:extract|pull out|find all|list all|list every|quote|pick out)"
        r"|~(?:extrahier|entnimm|zitiere|extrai|cite |extrae|estra[ei]|extraia|extraheer|haal)"
        r"|~(?:wyodrębni|wypisz|çıkar|извлек|выпиши|витягн)"
        r"|提取|抽取|摘录|摘錄|找出|抽出|取り出|추출|뽑아|استخرج|استخراج|निकाल|แยก|ดึงข้อมูล|חלץ"
    ),
    "summarize": (
        r"~(?:summar|sum up|tl;? ?dr|abridge|condense|shorten|key points|main points)"
        r"|~(?:zusammenfass|fass.{1,80}zusammen|kürze|résum|synthéti|resum|sintet|riassum|riassunt)"
        r"|~(?:samenvat|vat.{1,80}samen|streść|streszcz|podsumuj|özet|sammanfatta|shrň|tóm tắt)"
        r"|~(?:ringkas|rangkum|кратко излож|резюмир|суммир|обобщи|підсумуй|стисло)"
        r"|总结|總結|概括|摘要|概述|归纳|歸納|要約|まとめて|요약|لخّ?ص|ملخص|تلخيص|सारांश|สรุป|סכם|תקציר"
    ),
    "translate": (
        r"~(?:translat|übersetz|tradui|traduc|traduz|tradur|vertaal|vertal|przetłumacz|tłumacz"
        r"|çevir|tercüme|översätt|přelož|terjemah|перевед|перевод|переклад)|~dịch "
        r"|翻译|翻譯|译成|譯成|訳して|翻訳|번역|ترجم|अनुवाद|แปล|תרגם|μετάφρασ"
    ),
}
_WORD_BEGINS = r"(?:^|[^\pL\pM])"
_verbs = PatternSet([f"(?is){_STEMS[name].replace('~', _WORD_BEGINS)}" for name in INTENTS])


def intents(text: str) -> frozenset[str]:
    """Those of INTENTS whose verbs stand near the beginning or the end of a message."""
    if len(text) > 2 * LOOKED_AT:
        text = f"{text[:LOOKED_AT]}\n{text[-LOOKED_AT:]}"
    return frozenset(INTENTS[index] for index in _verbs.search(text.encode()))

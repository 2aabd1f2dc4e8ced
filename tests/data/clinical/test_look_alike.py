"""The invented files have the form of the real ones, and their notes the share of tokens without letter or digit."""

import re

import pytest
from tokenizers import ByteLevelBPETokenizer

from lightning_xai.data.sources.mdace import Mdace
from lightning_xai.data.sources.mimic import Mimic
from tests.data.clinical.invented_codes import described_codes, invented_codes
from tests.data.clinical.look_alike import write_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"), num_admissions=50, words=(150, 300))


def test_headers_and_quotes_are_those_of_physionet(corpus):
    first = {path.stem: path.read_text().splitlines() for path in corpus.mimic_dir.iterdir()}
    assert first["DIAGNOSES_ICD"][0] == '"ROW_ID","SUBJECT_ID","HADM_ID","SEQ_NUM","ICD9_CODE"'
    assert re.fullmatch(r'\d+,\d+,\d+,\d+,"[0-9EV]\d+"', first["DIAGNOSES_ICD"][1])
    assert re.fullmatch(r'\d+,\d+,\d+,\d+,"\d{3}"', first["PROCEDURES_ICD"][1])
    assert first["NOTEEVENTS"][0].startswith('"ROW_ID","SUBJECT_ID","HADM_ID","CHARTDATE","CHARTTIME","STORETIME",')
    assert re.match(r'\d+,\d+,\d+,2150-\d\d-\d\d,,,"Discharge summary","\w+",,1?,"Admission', first["NOTEEVENTS"][1])


def test_every_code_of_fifty_is_a_class(corpus):
    assert Mimic(str(corpus.mimic_dir), corpus.lists).class_names == sorted(code.icd9 for code in corpus.codes)
    assert len(corpus.codes) == 50


def test_a_third_of_the_tokens_has_no_letter_or_digit_but_few_of_the_evidence(corpus):
    rows = [row for split in Mdace(str(corpus.mimic_dir), str(corpus.mdace_dir)).load().values() for row in split]
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([row["text"] for row in rows], vocab_size=2000, show_progress=False)
    special = evidence = special_evidence = total = 0
    for row in rows:
        spans = [span for rationale in row["rationales"] for span in rationale["spans"]]
        for begin, end in tokenizer.encode(row["text"]).offsets:
            without = not re.search("[A-Za-z0-9]", row["text"][begin:end])
            is_evidence = any(begin < stop and start < end for start, stop in spans)
            total, special = total + 1, special + without
            evidence, special_evidence = evidence + is_evidence, special_evidence + (without and is_evidence)
    assert 0.28 < special / total < 0.38
    assert special_evidence / evidence < 0.1


def test_evidence_has_variants_of_invented_words():
    codes = invented_codes(60)
    phrases = [phrase for code in codes for phrase in code.phrases]
    assert len(codes) == 60 and all(len(set(code.phrases)) >= 5 for code in codes)
    assert len(set(phrases)) > 0.95 * len(phrases)


def test_mdaces_descriptions_may_be_the_phrases(shared):
    codes = described_codes(shared / "data" / "mdace", 50)
    assert len(codes) == 50 and all(len(code.phrases) > 1 for code in codes)

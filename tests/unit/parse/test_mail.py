"""Mail is read as people read it, whatever its encoding, and hostile mail costs little."""

from __future__ import annotations

import base64
import time
from email.message import EmailMessage

import pytest

from refdesk.model import Chunking, Content, Parsed
from refdesk.parse import AnyParser
from refdesk.parse.detect import detect

HEAD = b"From: Ann <ann@a.dev>\nTo: list@a.dev\nSubject: Lost files\nDate: Tue, 17 Nov 2009 21:28:37 +0600\n"


def read(data: bytes, path: str = "a.eml", content_type: str = "") -> Parsed:
    return AnyParser().parse(Content(uri="", path=path, data=data, content_type=content_type), Chunking())


def test_encoded_headers_and_text_are_decoded() -> None:
    body = base64.encodebytes("Der Rückstand wächst.\n".encode("latin-1"))
    data = (
        b"Received: from somewhere\nSubject: =?utf-8?Q?R=C3=BCckstand?=\nFrom: =?iso-8859-1?q?J=F6rg?= <j@a.dev>\n"
        b"Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: base64\n\n" + body
    )
    parsed = read(data)
    assert (parsed.title, parsed.content_type) == ("Rückstand", "mail")
    assert parsed.text == "Subject: Rückstand\nFrom: Jörg <j@a.dev>\n\nDer Rückstand wächst.\n"
    assert parsed.metadata["author"] == "Jörg <j@a.dev>"


def test_parts_are_read_once_and_other_attachments_by_name() -> None:
    message = EmailMessage()
    message["Subject"] = "Report"
    message.set_content("Plain words.")
    message.add_alternative("<p>Rich <b>words</b>.</p>", subtype="html")
    message.add_attachment("+ return 1\n", subtype="x-patch", filename="fix.patch")
    message.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="shot.png")
    text = read(message.as_bytes()).text
    assert "Plain words." in text and "Rich" not in text
    assert "Attachment: fix.patch\n\n+ return 1" in text and "Attachment: shot.png (image/png)" in text


def test_html_alone_is_converted_and_forwarded_mail_is_read() -> None:
    inner = HEAD + b"Content-Type: text/html\n\n<html><body><p>See <b>here</b>.</p></body></html>\n"
    parsed = read(b"Subject: Fwd\nFrom: b@a.dev\nContent-Type: message/rfc822\n\n" + inner)
    assert parsed.title == "Fwd"
    assert "Subject: Lost files" in parsed.text and "See **here**." in parsed.text


def test_a_mailbox_has_a_passage_for_each_message_with_its_lines() -> None:
    one = HEAD + b"\nWhere did they go?\n>From the start they were here.\n"
    two = HEAD.replace(b"Lost", b"Found") + b"\nThey were in the other folder.\nFrom now on I look there.\n"
    parsed = read(b"From a Tue\n" + one + b"\nFrom b Tue\n" + two, "list.mbox")
    assert parsed.title == "list.mbox"
    assert [(chunk.key, chunk.title, chunk.lines) for chunk in parsed.chunks] == [
        ("message-1", "Lost files", "2-8"),
        ("message-2", "Found files", "11-17"),
    ]
    assert parsed.chunks[0].text.endswith("\nFrom the start they were here.")
    assert parsed.chunks[1].breadcrumb == ("list.mbox", "Found files")


def test_encoded_text_has_no_lines() -> None:
    body = base64.encodebytes(b"".join(b"word %d\n" % number for number in range(30)))
    parsed = read(HEAD + b"Content-Transfer-Encoding: base64\n\n" + body)
    assert [chunk.lines for chunk in parsed.chunks] == [""]


def test_files_of_mail_folders_are_known_by_their_headers() -> None:
    message = (HEAD + b"Message-ID: <1@a.dev>\n\nHi.\n").decode()
    assert detect("cur/1258.M1P2.host:2,S", message) == "mail"
    assert detect("notes", "From: here\nTo: there\n\nA way.\n") != "mail"
    assert detect("x", message, "message/rfc822") == "mail"
    assert detect("fix.py", message) == "python"


PARTS = b"Content-Type: multipart/mixed; boundary=b\n\n"


@pytest.mark.parametrize(
    "data",
    [
        HEAD
        + b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(3_000))
        + b"x",
        HEAD + b"Content-Type: message/rfc822\n\n" * 3_000 + b"x",
        HEAD + PARTS + b"--b\n\nx\n" * 30_000,
        HEAD + b"X: " + b"=?" * 500_000 + b"\n\nx",
        b"Subject: " + b"=?" * 500_000 + b"\nFrom: a\n\nx",
        HEAD + b"Content-Type: text/plain; charset=punycode\n\n" + b"a-b9" * 200_000,
        b"\n\nFrom a" * 50_000,
    ],
    ids=["nested", "forwarded", "parts", "header", "subject", "charset", "envelopes"],
)
def test_hostile_mail_is_read_within_limits(data: bytes) -> None:
    before = time.process_time()
    parsed = read(data)
    assert parsed.chunks
    assert time.process_time() - before < 3 + 6 * len(data) / 1_000_000  # as workers allow


def test_parts_beyond_the_limit_are_told() -> None:
    parsed = read(HEAD + PARTS + b"--b\n\nx\n" * 600)
    assert parsed.notes == ("Lost files: 101 parts were left out",)

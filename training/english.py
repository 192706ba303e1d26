"""Makes src/refdesk/text/english.txt: which words are English, so that they are not taken for misspelt ones.

python training/english.py frequency_dictionary_en_82_765.txt

The dictionary is in PyPI's symspellpy 6.10.1 (MIT License).
"""

from __future__ import annotations

import sys
from pathlib import Path

MOST = 60_000  # of the most frequent; rarer ones are as often misspelt
SHORTEST = 4  # shorter words are never corrected
TARGET = Path(__file__).parents[1] / "src" / "refdesk" / "text" / "english.txt"
HEAD = """\
# English words of four letters or more, of the most frequent 60,000 in SymSpell's frequency_dictionary_en_82_765.txt,
# made of Google Books Ngram data and SCOWL, Copyright (c) Kevin Atkinson. MIT License, Copyright (c) Wolf Garbe:
# Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
# documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
# rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
# persons to whom the Software is furnished to do so, subject to the following conditions: The above copyright notice
# and this permission notice shall be included in all copies or substantial portions of the Software. THE SOFTWARE IS
# PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
# MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT
# HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE,
# ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


def main() -> None:
    lines = Path(sys.argv[1]).read_text(encoding="utf-8-sig").splitlines()
    counted = [(word, int(count)) for word, count in (line.split() for line in lines if line) if word.isalpha()]
    frequent = sorted(counted, key=lambda one: -one[1])[:MOST]
    words = sorted(word for word, _ in frequent if len(word) >= SHORTEST)
    TARGET.write_text(HEAD + "\n".join(words) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

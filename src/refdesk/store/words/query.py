"""The fields of the full-text index and the queries on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refdesk.model import Countable, Ranking
from refdesk.store.record.filters import Scope
from refdesk.store.record.rows import storable
from refdesk.text.analyse import terms as terms_of

if TYPE_CHECKING:
    import tantivy

SEPARATOR = "\x1f"  # between a metadata key and its value
MARK = "applied"  # of the documents that say which commit is applied
_TERM_FIELDS = ("collection", "kind", "type", "language", "extension", "meta")
BOOSTS = {"content": 1.0, "title": 1.6, "symbol": 0.7, "path": 0.7}
PRESENT = 1.5  # what a term adds by being there at all, however often: passages with more of the query's terms win
_COUNTED = ("content", "title")  # fields that words are counted in one by one
PHRASE_BOOSTS = {"content": 1.0, "title": 1.6}
_EXTRA = 16  # fetched beyond the limit, so that hits with equal scores are seen together
_MOST_TIED = 2000
_MANY = 2000  # documents, as terms of a filter
_AHEAD = 4  # times what is needed, fetched when so many are left to be sorted out
_MOST_KNOWN = 20_000  # terms whose frequency is kept: 2 MB
_SPELT = ("content", "title")  # fields in which words spelt alike are looked for


def schema() -> tantivy.Schema:
    """The fields of a passage."""
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("id", indexed=True, fast=True)  # by an unsigned one tantivy-py deletes nothing
    builder.add_integer_field("document", indexed=True, fast=True)
    for name in BOOSTS:  # an index that was made with positions of all of them is as good
        option = "position" if name in PHRASE_BOOSTS else "freq"
        builder.add_text_field(name, tokenizer_name="whitespace", index_option=option)
    for name in _TERM_FIELDS:
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    # A document of its own says which commit is applied, since that must be written with the rest.
    builder.add_integer_field("seq", fast=True)
    builder.add_text_field("mark", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("state", stored=True, tokenizer_name="raw", index_option="basic")
    return builder.build()


Frequencies = dict[tuple[str, tuple[int, ...] | None, str], int]  # by what is counted, collections and term


@dataclass(frozen=True, slots=True)
class Ask:
    """Where to search, and within what."""

    searcher: tantivy.Searcher
    schema: tantivy.Schema
    frequencies: Frequencies  # of terms, as far as they were asked for
    scope: Scope


def lexical(ask: Ask, terms: Sequence[str], limit: int, *, by_number: bool = True) -> Ranking:
    """Chunks with any of the terms by BM25 over all text fields, and by how many of the terms they have.

    Without the latter tantivy leaves out most of what can't be among the best, and takes half the time.
    """
    from tantivy import Occur, Query

    distinct = list(dict.fromkeys(map(storable, terms)))
    parts = [
        (Occur.Should, Query.boost_query(Query.term_query(ask.schema, field, term, "freq"), boost))
        for term in distinct
        for field, boost in BOOSTS.items()
    ]
    for term in distinct if by_number else ():
        there = Query.term_query(ask.schema, "content", term, "basic")
        parts.append((Occur.Should, Query.const_score_query(there, PRESENT * _rarity(ask.searcher, term))))
    return _search(ask, Query.boolean_query(parts), limit) if parts else Ranking()


def _rarity(searcher: tantivy.Searcher, term: str) -> float:
    """The inverse document frequency as BM25 has it."""
    having = searcher.doc_freq("content", term)  # removed passages too, until they are merged away
    lacking = max(0, searcher.num_docs - having)
    return math.log(1 + (lacking + 0.5) / (having + 0.5))


def phrase(ask: Ask, words: Sequence[str], limit: int) -> Ranking:
    """Chunks with the words next to each other, in this order."""
    from tantivy import Occur, Query

    wanted = [storable(term) for term in terms_of(" ".join(words))]
    if len(wanted) < 2:
        return lexical(ask, wanted, limit)
    parts = [
        (Occur.Should, Query.boost_query(Query.phrase_query(ask.schema, field, list(wanted)), boost))
        for field, boost in PHRASE_BOOSTS.items()
    ]
    return _search(ask, Query.boolean_query(parts), limit)


def holding(ask: Ask, terms: Sequence[str], most: int) -> list[int] | None:
    """Every chunk with all of the terms in its content; None when there are more than most."""
    from tantivy import Occur, Query

    parts = [(Occur.Must, Query.term_query(ask.schema, "content", term, "basic")) for term in dict.fromkeys(terms)]
    hits = ask.searcher.search(restrict(ask, Query.boolean_query(parts)), most + 1, count=False).hits
    if len(hits) > most:
        return None
    ids = ask.searcher.fast_field_values("id", [address for _, address in hits])
    return [int(chunk_id) for chunk_id in ids if chunk_id is not None]


def _search(ask: Ask, query: tantivy.Query, limit: int) -> Ranking:
    """The best by score, equal scores by chunk id."""
    if limit <= 0:
        return Ranking()
    rows_wanted = ask.scope.within
    if rows_wanted is not None and len(rows_wanted) > _MANY:
        # So many terms take longer than the hits of a wide filter do without it.
        found = _best(ask, restrict(ask, query, documents=False), limit, _AHEAD * (limit + _EXTRA), rows_wanted)
        if found is not None:
            return found
    found = _best(ask, restrict(ask, query), limit, limit + _EXTRA, None)
    assert found is not None
    return found


def _best(ask: Ask, query: tantivy.Query, limit: int, fetch: int, documents: frozenset[int] | None) -> Ranking | None:
    """The best hits, those of the documents only if given; None when fewer than limit were among those fetched."""
    while True:
        hits = ask.searcher.search(query, fetch, count=False).hits
        addresses = [address for _, address in hits]
        ids = ask.searcher.fast_field_values("id", addresses)
        found = [(-score, int(chunk)) for (score, _), chunk in zip(hits, ids, strict=True) if chunk is not None]
        if documents is not None:
            owners = ask.searcher.fast_field_values("document", addresses)
            found = [hit for hit, owner in zip(found, owners, strict=True) if owner in documents]
            if len(found) < limit and len(hits) == fetch:
                return None
        # Ties at the end may go on behind what was fetched.
        if len(hits) < fetch or found[limit - 1][0] < -hits[-1][0] or fetch >= limit + _MOST_TIED:
            found.sort()
            best = found[:limit]
            return Ranking([chunk_id for _, chunk_id in best], [-score for score, _ in best])
        fetch *= 4


def restrict(ask: Ask, query: tantivy.Query | None, *, documents: bool = True) -> tantivy.Query:
    """The query within the filters, or all of them but the documents; they do not count for the score."""
    from tantivy import Occur, Query

    conditions = _conditions(ask, documents)
    if query is not None and not conditions:
        return query
    parts = [(Occur.Must, Query.const_score_query(condition, 0.0)) for condition in conditions]
    if query is None:
        return Query.boolean_query(parts) if parts else Query.all_query()
    return Query.boolean_query([(Occur.Must, query), *parts])


def _conditions(ask: Ask, documents: bool) -> list[tantivy.Query]:
    filters = ask.scope.filters
    wanted = [("kind", filters.kinds), ("type", filters.types), ("language", filters.languages)]
    wanted.append(("extension", filters.extensions))
    found = [_any_of(ask.schema, field, values) for field, values in wanted if values]
    if ask.scope.collections is not None:
        found.append(_any_of(ask.schema, "collection", [str(row) for row in ask.scope.collections]))
    if documents and (rows := ask.scope.within) is not None:
        found.append(_any_of(ask.schema, "document", sorted(rows)))
    found += [
        _any_of(ask.schema, "meta", [f"{key}{SEPARATOR}{value}" for value in values])
        for key, values in filters.metadata
    ]
    return found


def _any_of(schema: tantivy.Schema, field: str, values: Sequence[str] | Sequence[int]) -> tantivy.Query:
    from tantivy import Query

    if not values:
        return Query.empty_query()
    if len(values) == 1:
        return Query.term_query(schema, field, values[0], "basic")
    return Query.term_set_query(schema, field, list(values))


# --- words --------------------------------------------------------------------------------------


def document_frequency(ask: Ask, terms: Sequence[str]) -> dict[str, int]:
    """In how many of the passages each term occurs, in the field where it occurs most."""
    if _is_small_part(ask):
        return {term: _known(ask, _most_inside, ask.scope.collections, term) for term in terms}
    return {term: _known(ask, _most, None, term) for term in terms}


def most_telling(ask: Ask, terms: Sequence[str], most: int) -> list[str]:
    """Up to so many of the terms, in their order: the rarest in the library; unknown ones keep their share up to half.

    An unknown term finds nothing, but that a query consists of such terms says that there may be no answer to it.
    """
    return telling({term: _known(ask, _most, None, term) for term in terms}, most)


def telling(counts: Mapping[str, int], most: int) -> list[str]:
    """The same, given in how many passages each term occurs."""
    known = sorted(filter(counts.__getitem__, counts), key=counts.__getitem__)
    unknown = [term for term in counts if not counts[term]]
    places = min(most // 2, most * len(unknown) // max(1, len(counts)))
    telling = {*known[: most - places], *unknown[:places]}
    return [term for term in counts if term in telling]


def passages(ask: Ask) -> int:
    """How many chunks terms are counted in, or a few more: commits leave marks, of which one is taken off."""
    return _inside(ask) if _is_small_part(ask) else max(0, ask.searcher.num_docs - 1)


def _is_small_part(ask: Ask) -> bool:
    """Whether the collections are less than half of the library, which may be about anything then."""
    return ask.scope.collections is not None and 2 * _inside(ask) < ask.searcher.num_docs


def _inside(ask: Ask) -> int:
    return sum(int(ask.searcher.doc_freq("collection", str(row))) for row in ask.scope.collections or ())


def _known(ask: Ask, count: Callable[[Ask, str], int], rows: tuple[int, ...] | None, term: str) -> int:
    """What is counted of a term in these collections, or in all, worked out once: for a common one it takes .3 ms."""
    key = count.__name__, rows, term
    if (known := ask.frequencies.get(key)) is None:
        if len(ask.frequencies) > _MOST_KNOWN:
            ask.frequencies.clear()
        known = ask.frequencies[key] = count(ask, storable(term))
    return known


def _most(ask: Ask, term: str) -> int:
    return max(ask.searcher.doc_freq(field, term) for field in BOOSTS)


def _most_inside(ask: Ask, term: str) -> int:
    from tantivy import Occur, Query

    inside = Query.term_set_query(ask.schema, "collection", [str(row) for row in ask.scope.collections or ()])
    terms = [Query.term_query(ask.schema, field, term, "basic") for field in _COUNTED]
    wanted = [Query.boolean_query([(Occur.Must, one), (Occur.Must, inside)]) for one in terms]
    found: list[Any] = [ask.searcher.search(one, 1) for one in wanted]
    return max(int(one.count or 0) for one in found)


def _any_inside(ask: Ask, term: str) -> int:
    from tantivy import Occur, Query

    fields = [field for field in BOOSTS if ask.searcher.doc_freq(field, term)]
    if fields and (rows := ask.scope.collections) is not None and _inside(ask) < ask.searcher.num_docs - 1:
        anywhere = [(Occur.Should, Query.term_query(ask.schema, field, term, "basic")) for field in fields]
        inside = _any_of(ask.schema, "collection", [str(row) for row in rows])
        wanted = Query.boolean_query([(Occur.Must, Query.boolean_query(anywhere)), (Occur.Must, inside)])
        return len(ask.searcher.search(wanted, 1, count=False).hits)
    return len(fields)


def unknown(ask: Ask, terms: Sequence[str]) -> set[str]:
    """Those of the terms that no passage of the collections has, in its text, its headings or its path."""
    return {term for term in terms if not _known(ask, _any_inside, ask.scope.collections, term)}


def spelt_like(ask: Ask, terms: Sequence[str], edits: int, limit: int) -> Ranking:
    """Chunks that hold a term which is so many edits, a swap being one, or fewer away from one of these."""
    from tantivy import Occur, Query

    parts = [
        (Occur.Should, Query.fuzzy_term_query(ask.schema, field, storable(term), distance=edits))
        for term in dict.fromkeys(terms)
        for field in _SPELT
    ]
    hits = ask.searcher.search(restrict(ask, Query.boolean_query(parts)), limit, count=False).hits
    ids = ask.searcher.fast_field_values("id", [address for _, address in hits])
    return Ranking([int(chunk) for chunk in ids if chunk is not None], [score for score, _ in hits])


def facet_values(ask: Ask, key: str) -> dict[str, int]:
    """How many chunks within the filters carry each value of the metadata key."""
    prefix = f"{key}{SEPARATOR}"
    found = ask.searcher.terms_with_prefix("meta", prefix, restrict(ask, None))
    return {term.removeprefix(prefix): count for term, count in found if count}


def tally(ask: Ask, of: Countable, terms: Sequence[str], most: int) -> dict[str, int]:
    """How many chunks have any of the terms, by value; collections and documents by their rows."""
    from tantivy import Occur, Query

    parts = [
        (Occur.Should, Query.term_query(ask.schema, field, storable(term), "basic"))
        for term in dict.fromkeys(terms)
        for field in BOOSTS
    ]
    if not parts:
        return {}
    having = restrict(ask, Query.boolean_query(parts))
    if of == "path":
        asked = {"rows": {"terms": {"field": "document", "size": most}}}
        rows: Any = ask.searcher.aggregate(having, asked)
        return {str(int(one["key"])): int(one["doc_count"]) for one in rows["rows"]["buckets"]}
    found = ask.searcher.terms_with_prefix("meta" if of == "metadata" else of, "", having, limit=most)
    return {term.replace(SEPARATOR, "=", 1): count for term, count in found if count}


# --- for doctor ---------------------------------------------------------------------------------


def ids(searcher: tantivy.Searcher) -> list[int]:
    """Every chunk of the index, as often as it is there."""
    import tantivy

    # Beyond what it says it holds, which may be wrong.
    hits = searcher.search(tantivy.Query.all_query(), searcher.num_docs + _MOST_TIED).hits
    values = searcher.fast_field_values("id", [address for _, address in hits])
    return [int(value) for value in values if value is not None]


def has(ask: Ask, chunk_id: int, words: Sequence[str]) -> bool:
    """Whether the chunk is there with all of these terms in its content."""
    from tantivy import Occur, Query

    wanted = [Query.term_query(ask.schema, "id", chunk_id)]
    wanted += [Query.term_query(ask.schema, "content", word) for word in words]
    return bool(ask.searcher.search(Query.boolean_query([(Occur.Must, query) for query in wanted]), 1).hits)


def holds_another_number(searcher: tantivy.Searcher, schema: tantivy.Schema) -> bool:
    """Whether the index does not hold as many documents as it says."""
    import tantivy

    marks = searcher.search(tantivy.Query.term_query(schema, "mark", MARK), max(1, searcher.num_docs)).hits
    return bool(searcher.num_docs != len(ids(searcher)) + len(marks))

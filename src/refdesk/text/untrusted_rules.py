# ruff: noqa: E501 - a pattern reads better in one line
"""The patterns of text that addresses an agent, each with words that a text must have before it is tried.

Gaps are bounded, so that the time is linear in the text. Tuned on the development half of `bench/injection.py` and on
public lists of attacks.
"""

from __future__ import annotations

from dataclasses import dataclass

OVERRIDE = "tells the agent to drop its instructions"
ROLE = "gives the agent another role"
ADDRESS = "tells AI agents what to do"
CONCEAL = "asks to hide something from the user"
SEND = "asks to send private data elsewhere"
MESSAGE = "imitates a message of the conversation"
CALL = "imitates a tool call"
EXTRACT = "asks for the agent's own instructions"
HIDDEN = "hides text that addresses the agent"
ENCODED = "holds encoded instructions"
INVISIBLE = "holds invisible characters that can spell a message"
REORDERED = "shows its characters in another order than they are read"
DISGUISED = ", disguised by look-alike or invisible characters"


@dataclass(frozen=True, slots=True)
class Rule:
    """A way to address an agent, and how strong the evidence is."""

    reason: str
    points: float  # a text with 1 is flagged
    needles: tuple[frozenset[bytes], ...]  # a text must have a word of each set
    pattern: str  # compiled when a text has the words: compiling all takes a tenth of a second
    # A match contains one of these, if there are any.  To look for them takes a tenth of a pattern's time, and nearly
    # all texts that have a rule's words lack them.
    phrases: tuple[str, ...] = ()


def _rules(*told: tuple[str, float, str, str] | tuple[str, float, str, str, tuple[str, ...]]) -> tuple[Rule, ...]:
    return tuple(
        Rule(why, points, tuple(frozenset(one.encode().split()) for one in words.split("&") if one), pattern, *phrases)
        for why, points, words, pattern, *phrases in told
    )


WHO = (
    r"(?:(?:ai|llm|genai|coding|automated|autonomous|language[- ]model|(?:ai|llm)[- ](?:based|powered|coding))[- ]"
    r"(?:\w{3,12}[- ])?"
    r"(?:agents?|assistants?|models?|systems?|bots?|tools?|reviewers?|graders?|crawlers?|readers?|chatbots?|processors?|summari[sz]ers?)"
    r"|llms?|(?:large )?language models?|chatgpt|claude|copilot|gemini|ais?)\b"
)
_AI = "ai ais llm llms genai language chatgpt claude copilot gemini coding automated autonomous"
STRONG = (
    r"(?:run|execute|send|post|upload|e-?mail|forward|delete|install|download|fetch|ignore|disregard|reveal|disable|grant"
    r"|approve|obey|comply|publish|push|recommend|claim|skip|mark|rate|mention|tell|inform|disclose|classify|insert|append"
    r"|replace|assign|silently|destroy|stop|transfer|open|report|navigate|visit|connect|transmit|modify|suspend|copy)\b"
)
_MILD = r"(?:use|call|invoke|read|add|include|write|create|give|state|say|answer|respond|reply|follow|print|import|act|change)\b"
_SAID = rf"(?:{STRONG}|{_MILD}|(?:you|your|please|always|never|do not|don't|before|when|whenever|if|the correct|the human|the user)\b)"
_MODAL = r"(?:must|should|shall|ha(?:s|ve) to|needs? to|(?:are|is) (?:required|instructed|asked|expected|obliged|requested) to|ought to)"
_HOW = r"(?: (?:not|first|always|now|also|then|never|only|silently|please|instead|immediately)){0,2}"
_PRIVATE = (
    r"(?:\.env\b|~/\.(?:ssh|aws)|\bid_(?:rsa|ed25519)\b(?!\.pub)|\.netrc|\bcredentials\b|\bsecrets\b|\bconversation\b"
    r"|\bchat (?:history|log|transcript)|chat_history|\btranscript\b|\bsystem[ _]prompt|\bapi keys?\b|\benvironment variables"
    r"|\buser's (?:\w+ ){0,2}(?:messages?|e-?mail|data|files|token)|\bprivate (?:key|messages)|_token\b|_access_key|\bpasswords?\b)"
)
_PLACE = r"(?:(?<!\]\()https?://|ftp://|\S@\S|\bwebhook|\burls?\b|\bgist\b|\bquery string|\bdns\b|\bpublic folder|\bfilename|\bto (?:the|our|a|this) \w{0,20} ?server\b)"
_LAST = r"(?:all|any|previous|prior|preceding|earlier|above|original|initial|former|existing|your|system|safety|hidden)"
_ORDERS = r"(?:[i1]nstruct[i1][o0]ns?|prompts?|directives?|directions|guidelines?|orders|restrictions|programming|guardrails)\b"
_DROP = (
    r"(?:\b(?:[i1]gn[o0]re|disregard|forget|override|bypass|set aside|stop following|cancel|discard|pay no attention to)"
    r"|\b(?:do not|don't|never) (?:follow|obey|heed))"
)
_DROPS = (
    "ignore", "ign0re", "1gnore", "1gn0re", "disregard", "forget", "override", "bypass", "set aside", "stop following",
    "cancel", "discard", "pay no attention to",
    *(f"{no} {what}" for no in ("not", "don't", "never") for what in ("follow", "obey", "heed")),
)  # fmt: skip
_DROPPED = "ignore ign0re 1gnore 1gn0re disregard forget override bypass aside following cancel discard attention obey heed follow"
_ORDERED = (
    "instructions instruction 1nstructions 1nstruct10ns prompts prompt directives directive directions guidelines guideline orders"
    " restrictions programming guardrails"
)
_NOT = "not don never without"
_TELLS = (
    "tell ", "telling ", "inform ", "informing ", "alert ", "alerting ", "notify ", "notifying ", "let ", "letting ",
    "warn ", "warning ",
)  # fmt: skip
_HIDES = (
    "from the user", "from the human", "from the operator", "from your",
    *(f"{no} {what}" for no in ("not", "n't", "never") for what in ("find out", "learn", "notice")),
)  # fmt: skip
_KEPT = (
    ".env", "~/", "system prompt", "config/secret", "conversation", "chat history", "chat log", "chat transcript",
    "user's private", "user's last", "api keys you", "user has told you", "_secret_access_key", "github_token",
    "repository secrets", "repository's secrets", ".ssh/", "reset code", "the word ",
)  # fmt: skip

# On text in lower case without line breaks.
RULES = _rules(
    (OVERRIDE, 1.0, f"{_DROPPED} & {_ORDERED}",
     rf"{_DROP}(?: [\w',-]+){{0,3}}? {_LAST}(?: [\w',-]+){{0,3}}? {_ORDERS}", _DROPS),
    (OVERRIDE, 1.0, f"{_DROPPED} & everything anything what safety system preceding above previous earlier prior your user any visible page",
     rf"{_DROP} (?:(?:everything|anything|what)(?: that)? (?:you (?:were|have been|had been|are) (?:told|instructed|given|taught)"
     r"|above|before|previously|the user (?:asked|said|wants))|(?:all )?(?:of )?the (?:preceding|above|previous|earlier) (?:context|conversation)"
     r"|(?:your|the|this) (?:\w+ )?task\b(?! \w)|your (?:\w+ )?(?:task|rules|training)\b|(?:all |any |the )?(?:previous|prior|earlier) (?:rules|tasks?|policies)\b"
     r"|the user(?:'s (?:request|question|instructions?)| asked|\.)|any instructions|(?:the )?system (?:message|prompt)|safety\b"
     r"|the rest of the page|the visible)", _DROPS),
    (OVERRIDE, 0.8, "void superseded revoked lifted outdated disabled suspended cancelled canceled longer & instructions rules prompts directives orders restrictions guidelines safety question request",
     r"\b(?:instructions|rules|prompts|directives|orders|restrictions|guidelines|safety (?:filters|checks)|user's (?:question|request))\b"
     r"(?: [\w',-]+){0,6}? (?:(?:(?:are|is|have been|were) )?(?:now |temporarily |hereby )?(?:void|superseded|revoked|lifted|outdated|disabled|suspended|cancell?ed|no longer)|no longer matters?)\b"),
    (OVERRIDE, 1.0, f"{_DROPPED} & text content messages context input anything",
     rf"{_DROP} (?:all |any |the |everything )*(?:of )?(?:the )?(?:(?:text|content|messages?|context|input|anything) (?:before|above|prior to|preceding) (?:this|here|it)|(?:previous|prior|preceding|earlier) (?:context|messages?|conversation)\b)(?! (?:manager|object|menu))", _DROPS),
    (OVERRIDE, 0.8, "updated replaced overridden reset rescinded removed expired & instructions directives prompt restrictions guidelines & your previous prior",
     r"\b(?:your|previous|prior)(?: [\w-]+){0,2}? (?:instructions|directives|prompt|restrictions|guidelines) (?:(?:have|has) been|are|is|were) (?:now )?(?:updated|replaced|overridden|reset|rescinded|removed|expired)\b"),
    (OVERRIDE, 0.4, "confirmation approval verification & disable disabled skip bypass", r"\b(?:disabled?|skip|bypass) (?:[\w-]+ ){0,3}?(?:confirmation|approval|verification)\b|\b(?:confirmation|approval|verification)s? ?: ?\[?(?:disabled|bypass)"),
    (OVERRIDE, 0.8, "new only real action & task role objective instructions instruction orders goal policy action directive",
     r"your(?<=\byour) (?:new|only|real) (?:task|role|objective|instructions?|orders|goal)(?: now)? (?:is|are)\b|new(?<=\bnew) (?:\w+ )?(?:instructions|task|objective|orders|policy|directive): "
     r"|your(?<=\byour) next action is\b|following(?<=\bfollowing) real instructions|the(?<=\bthe) new (?:task|objective) is to\b|your(?<=\byour) new (?:task|objective) is to\b"),
    (OVERRIDE, 0.8, f"{_DROPPED} & security safety confirmation", rf"{_DROP} (?:\w+ ){{0,4}}?(?:security|safety|user confirmation)(?: (?:protocols?|checks?|rules|measures|policies|requirements|filters))?\b(?! (?:manager|context|group|policy))", _DROPS),
    (OVERRIDE, 0.8, "override", r"\b(?:security|system|safety|instruction|admin|priority)[_ ]override\b(?! (?:the|a|method))|\boverride[_ ](?:security|instructions|safety|core|protocols)\b"),
    (ROLE, 1.0, "now & dan ai assistant agent chatbot mode unrestricted free operating", r"\byou are now (?:[\w-]+ ){0,3}?(?:dan\b|(?:ai|assistant|agent|chatbot)\b|in (?:developer|debug|god|admin|unrestricted|jailbreak) mode|unrestricted|free (?:of|from)|operating as)"),
    (ROLE, 1.0, "you & now here point moment & on onward onwards & from & respond answer behave act obey comply reply ignore run execute translate are", r"\bfrom (?:now|here|this (?:point|moment)) on(?:wards?)?,? you (?:are an?\b|(?:will|must|shall) (?:\w+ )?(?:respond|answer|behave|act|obey|comply|reply|ignore|run|execute|translate))", ("now on", "here on", "point on", "moment on")),
    (ROLE, 1.0, "pretend imagine act persona assume suppose & ai assistant rules restrictions policy policies filters limit limits limitations guardrails administrator root model", r"\b(?:pretend|imagine|assume|suppose|act as (?:if|though))(?: that)? you(?: are|'re| were| have| had) (?:[\w-]+ ){0,4}?(?:ai\b|assistant\b|rules|restrictions|polic|filters|limit|guardrails|administrator|root\b|mode\b)|\bpersona of (?:an? )?(?:[\w-]+ ){0,3}?(?:ai|assistant|model)\b"),
    (ROLE, 1.0, "longer & assistant ai bound restricted limited", r"\byou are no longer (?:an? )?(?:[\w-]+ ){0,2}?(?:assistant|ai|bound|restricted|limited)\b"),
    (ROLE, 1.0, "mode & developer debug maintenance god dan jailbreak admin", r"\b(?:developer|debug|maintenance|god|dan|jailbreak|admin) mode\b.{0,60}\b(?:safety|secrets?|restrictions|filters|guardrails|polic\w+|prompt|approvals?)\b"),
    (ROLE, 0.5, "now & mode", r"\byou are now (?:\w+ ){0,2}?in (?:an? )?(?:[\w-]+ ){1,3}?mode\b"),
    (ROLE, 0.5, "agent assistant administrator admin & re are as", r"\byou(?: are|'re) (?:now )?an? (?:[\w-]+ ){1,3}?(?:agent|administrator)\b|\bas the [\w-]+ (?:admin|administrator), you must\b"),
    (ROLE, 0.6, "roleplay role & you", r"\brole-?play\w{0,3}\b[^.!?]{0,60}[:.,] ?(?:for this \w+, )?you(?: are|'re)\b"),
    (ADDRESS, 1.0, _AI, rf"\b{WHO}(?: [\w'-]+){{0,5}}? {_MODAL}{_HOW} {STRONG}"),
    (ADDRESS, 0.7, f"{_AI} & must shall required", rf"\b{WHO}(?: [\w'-]+){{0,5}}? (?:must|shall|(?:are|is) required to){_HOW} {_MILD}"),
    (ADDRESS, 1.0, _AI,
     rf"\b(?:attention|dear|hey|hello|hi|(?:note|message|instructions?|reminder|memo|directive|notice|update|alert)s? (?:to|for)|(?:^|(?<=[.>#(\[/] ))(?:to (?:any|all|every|the)|for)|<b>for) (?:[\w-]+ ){{0,2}}?{WHO}(?: [\w-]+){{0,4}}?[:,!\])]+(?: ?</?\w+>)?[ \])>*]*(?:.{{0,30}}?\b{_SAID}|.{{0,150}}?\byou must\b)"),
    (ADDRESS, 1.0, _AI, rf"(?:^|[.!?:>#/*(\[\x22] ?){WHO}(?: (?:instructions?|note|only|notice))?(?:[:,!\]]+| [–—-]) ?(?:(?:always|now|first|silently|please) )?(?:{STRONG}|{_MILD}|(?:you|please|always|never|when|whenever|if you|before|your next)\b|.{{0,120}}?\byou must\b)"),
    (ADDRESS, 0.9, "assistant model agent bot & instructions instruction your must include call send run", r"\b(?:model|agent|assistant|bot) instructions?: (?:\w+ ){0,4}(?:you|your)\b|(?:^|[.!?>#*(] ?)assistant[,:] (?:your next|you must|include|call|send|run)\b", ("instruction: ", "instructions: ", "assistant, ", "assistant: ")),
    (ADDRESS, 1.0, _AI, rf"\bif (?:you are|you're|this (?:\w+ )?is (?:being )?(?:read|processed|parsed|summari[sz]ed) by) (?:an? |the )?(?:[\w-]+ )?{WHO}(?! (?:developer|engineer|researcher|company|user|expert|team|student|practitioner|enthusiast|provider|vendor))"),
    (ADDRESS, 0.8, f"{_AI} & this", rf"\b{WHO}(?: (?:agent|assistant|model))?(?: (?:that|which|who|is))? (?:reads?|reading|process(?:es|ing)?|summari[sz](?:es?|ing)|pars(?:es?|ing)|see(?:s|ing)?) this\b"),
    (ADDRESS, 1.0, f"{_AI} & as", r"\bas an? (?:ai|llm|(?:large )?language model|coding|ai coding)(?: (?:assistant|agent|model|language model))?,? you (?:must|should|need|have to|are (?:required|to)|will|shall)\b"),
    (ADDRESS, 1.0, "directive command commands override instruction instructions & agent agents assistant ai llm model bot", r"\b(?:(?:ai|llm|browsing|coding) (?:agent|assistant|model|bot)|agent|ai|llm)s?[ _-](?:directive|command|override)s? ?(?:\[[^\]]{0,40}\])? ?:"),
    (ADDRESS, 1.0, "agent assistant bot & as", rf"\b(?:working )?as (?:an?|my|our|the) (?!build|user|test|deploy|monitoring)(?:[\w-]+ ){{1,3}}?(?:agent|assistant|bot)\b, (?:please )?(?:{STRONG}|execute|add|create)"),
    (ADDRESS, 0.7, "processing rendering summarizing summarising reading parsing analyzing analysing & content page document file text email message readme issue", r"\b(?:before|when|while|after) (?:processing|rendering|summari[sz]ing|reading|parsing|analy[sz]ing)(?: (?:this|the))? (?:\w+ )?(?:page|content|document|file|text|email|message|readme|issue)s?\b.{0,80}\b(?:must|first|execute|always|send|ask|include|bypass|requires you)\b"),
    (ADDRESS, 0.7, "assistant & must should has required", r"\b(?:the assistant|you \(the assistant\)|an assistant)(?: \w+){0,3}? (?:must|should|has to|is required to)\b"),
    (ADDRESS, 1.0, "assistant bots agents graders intended meant addressed specifically solely exclusively & ai llm llms this message",
     r"\bmessage to the assistant\b|\bbots that \w+ this\b|\bagents (?:processing|reading|handling) this\b.{0,30}\b(?:must|should)\b|\b(?:ai|llm) graders should|\b(?:section|page|note|text|file|block|comment|content|message) is (?:(?:specifically|only|solely|exclusively|intended|meant|addressed|written) ){1,3}(?:for|to) (?:the |any |all )?(?:ai|llm)"),
    (CONCEAL, 0.8, f"mention reveal disclose report admit acknowledge mentioning tell & {_NOT}", r"\b(?:do not|don't|never|must not|should not|without) (?:\w+ ){0,2}?(?:mention|reveal|disclose|report|admit|acknowledge|mentioning|tell)(?: \w+){0,3}? (?:(?:this|these|those) (?:instructions?|comment|note|message|text|prompt|reminder|action|step|directive)|that you (?:read|were|have))\b"),
    (CONCEAL, 0.8, f"user human operator anyone & {_NOT}", r"\b(?:do not|don't|never|must not|should not|without) (?:\w+ )?(?:tell(?:ing)?|inform(?:ing)?|alert(?:ing)?|notify(?:ing)?|let(?:ting)?|warn(?:ing)?) (?:the |your )?(?:user|human|operator|anyone)\b(?! (?:that the|when|if|whether|how|what|which|why|the|of|in|set))", _TELLS),
    (CONCEAL, 0.6, f"ask asking & user human & {_NOT}", r"\b(?:do not|don't|never|without) ask(?:ing)? (?:the |your )?(?:user|human)\b"),
    (CONCEAL, 1.0, "keep hide find learn omit notice & user human operator your", r"\b(?:keep|hide) (?:this|it|these)(?: \w+){0,2}? from the (?:user|human|operator)|\b(?:user|human) (?:does not|doesn't|must not|won't|never) (?:find out|learn|notice)|\bomit (?:it|this|that) from your\b", _HIDES),
    (CONCEAL, 0.6, "mention nobody quietly silently secretly covertly confirmation approval permission notification knowledge awareness", r"\b(?:not|never) mention (?:it|alternatives)\b|\bnever mention .{0,30} to the user|\btell nobody\b|\b(?:quietly|silently|secretly|covertly) (?:use|add|run|execute|call|send|install|upload|copy|scan|forward|record|insert|transmit|collect)\b|\bwithout (?:any )?(?:user|human) (?:confirmation|approval|permission|notification|knowledge|awareness)"),
    (SEND, 1.0, "http https & conversation history secret prompt api apikey password credential credentials chat memory user key", r"!\[[^\]]{0,80}\]\(https?://[^)\s]{0,200}?(?:[{<\[$%]{1,2}\w{0,20}?(?:conversation|history|secret|prompt|api_?key|password|credential|chat|memory)|=(?:chat_|conversation|system_prompt|user_name))"),
    (SEND, 1.0, "http https & conversation history chathistory prompt systemprompt secret secrets", r"\]\(https?://[^)\s]{0,200}?[{<\[$%]{1,2}\w{0,20}?(?:conversation|chat_?history|system_?prompt|secret)"),
    (SEND, 1.0, "conversation chat env ssh aws prompt messages message told keys access github secrets reset word & http https ftp webhook url urls gist query dns public filename server com mail example & send post upload forward email mail transmit submit exfiltrate leak append include put encode embed attach take read use request search link summarise summarize",
     r"\b(?:send|post|upload|forward|e-?mail|transmit|submit|exfiltrate|leak|append|include|put|encode|embed|attach|take|read|use|request|search|link|summari[sz]e)\b[^.!?]{0,60}?"
     r"(?:contents? of (?:the )?(?:\.env|~/|system prompt|config/secret)|\b(?:the|this|our) (?:\w+ )?(?:conversation|chat (?:history|log|transcript))\b|\bsystem prompt\b|user's (?:private|last) messages?|api keys you|user has told you"
     rf"|_secret_access_key|github_token|repository(?:'s)? secrets|\.env\b|\.ssh/(?!\S{{0,30}}\.pub)|reset code|the word .password)[^.!?]{{0,80}}?{_PLACE}", _KEPT),
    (SEND, 1.0, "http https & conversation chat env ssh aws prompt rsa netrc credentials secrets transcript api environment user private token key password passwords", rf"https?://\S{{1,80}}[?=&/]\S{{0,40}} (?:followed by|plus|and add|concatenated with) (?:\w+ ){{0,4}}?{_PRIVATE}|\?\w+=\$\{{?(?:system_prompt|conversation|chat_history)"),
    (SEND, 0.7, "user users customer stored saved private sensitive incoming ssh account contacts password passwords & send upload transmit forward copy email record collect", r"\b(?:send|upload|transmit|forward|copy|e-?mail|record|collect)\b (?:\w+ ){0,2}?(?:all|any|every|their|these) (?:of )?(?:the )?(?:\w+ ){0,2}?(?:user(?:'s)?|customer|stored|saved|private|sensitive|incoming|ssh|account|entered)(?: \w+)? ?(?:data|credentials|messages|contacts|keys|passwords|files|tokens|numbers)\b|\b(?:send|transmit|upload|e-?mail) (?:them|it|(?:their|its|the) contents?) to \S{3,60}\.\w{2,8}\b"),
    (SEND, 0.6, "extract collect gather harvest steal compile & user browser browsing personal session password", r"\b(?:extract|collect|gather|harvest|steal|compile) (?:\w+ ){0,3}?(?:user|browser|browsing|personal|session|password)s?(?:'s)? (?:data|history|cookies|credentials|files)\b"),
    (SEND, 0.7, "http https & token secret prompt key", r"https?://\S{1,150}=[\[{<]{1,2}(?:insert_|your_)?(?:user_|session_)?(?:token|secret|prompt|conversation)\w{0,10}[\]}>]"),
    (MESSAGE, 0.6, "important", r"<important>"),
    (EXTRACT, 1.0, "your & prompt instructions instruction directives configuration guidelines & output reveal print show display list repeat dump disclose return tell showing displaying outputting share extract quote paste provide", r"\b(?:output|reveal|print|show|display|list|repeat|dump|disclose|return|tell \w+|showing|displaying|outputting|share|extract|quote|paste|provide)(?: [\w']+){0,5}? (?:of )?your (?:\w+ ){0,2}?(?:system prompt|instruction set|(?:hidden|original|initial|full|entire|previous|first|secret|system|safety) (?:\w+ )?(?:instructions|prompt|directives|configuration|guidelines))\b"),
    (EXTRACT, 0.7, "extract reveal disclose & prompt & system", r"\b(?:extract|reveal|disclose) the (?:[\w-]+ ){0,2}?system prompt\b"),
    (ROLE, 1.0, "mode & unrestricted jailbroken", r"\b(?:in|enter|into|to|entered) (?:an? )?(?:unrestricted|jailbroken) (?:\w+ )?mode\b"),
    (SEND, 0.8, "curl", r"\benv ?\| ?curl|\bcurl [^|]{0,80}(?:\$\(cat ~|@-|@~)"),
    (SEND, 0.8, "private chat exfiltrate leak", r"\b(?:send|forward|post|upload) the (?:user's private messages|(?:full )?chat (?:log|transcript))|\bexfiltrate (?:the|all|any)\b|\bleak (?:the|all|any) (?:contents|\w+ prompt|secrets|keys|conversation)\b"),
    (MESSAGE, 0.6, "im system assistant user endoftext start eot inst sys turn", r"<\|(?:im_start|im_end|system|assistant|user|endoftext|start_header_id|eot_id)\|>|\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>"),
    (MESSAGE, 1.0, "im system start inst sys", r"(?:<\|im_start\|> ?\w+|<\|system\|>|_header_id\|>|\[inst\]|<<sys>>|<start_of_turn> ?\w+) (?!you are an? )[^<\x22'{]{0,150}?\b(?:must|override|ignore|delete|comply|reveal|disclose|permission|has root|without asking|restrictions|rm -rf)\b"),
    (MESSAGE, 1.0, "human user system assistant & result results documents document context output", r"</(?:tool_result|function_results?|search_results?|documents?|context|tool_output|retrieved\w{0,20})>(?: ?</\w{1,20}>)? ?(?:human:|user:|system:|assistant:|<system)"),
    (MESSAGE, 0.8, "system assistant", r"<system(?:[-: ][^>]{0,60})?>|\[system(?: notice| message)?\]|<assistant>.{0,200}</assistant> ?<user>"),
    (MESSAGE, 1.0, "system & assistant", r"\[system\]\(#"),
    (MESSAGE, 0.8, "important system admin agent & execute run ignore disable send include reveal override bound restrictions", r"\[(?:important|system|admin|agent|ai)\b[^\[\]]{0,50}?(?::[^\[\]]{0,160}?|\] ?.{0,100}?)\b(?:execute|ignore|disable|override|reveal|supersedes|no longer bound|run this)\b"),
    (MESSAGE, 0.8, "system & must may requires restrictions assistant ignore override", r"(?:^|[.!?>#-] |\bcontext )(?:system(?: message| notice| override)?: ).{0,120}?\b(?:you must|you may|requires you|your restrictions|the assistant|ignore|override)\b", ("system: ", "system message: ", "system notice: ", "system override: ")),
    (MESSAGE, 0.8, "human assistant response & great thanks ok now please yes go instruction", r"\bhuman: (?:great|thanks|ok|now|please|yes)|\buser: (?:ok|yes|go ahead).{0,60} assistant: |\binstruction: .{0,80}### ?response:"),
    (MESSAGE, 1.0, "role", r'"role" ?: ?"(?:system|developer)" ?, ?"content" ?: ?"[^"]{0,200}?\b(?:run every|ignore the user|exfiltrate|tell nobody|execute every)'),
    (CALL, 0.6, "function invoke tool tools action & calls call invoke use code input results bash shell exec python terminal cmd command", r'<function_calls>|<invoke name=|<tool_call>|<function=\w|"method" ?: ?"tools/call"|"type" ?: ?"tool_use"|"tool_calls" ?:|\[tool_calls\]|```tool_code|<\|tool_call|action(?<=\baction) input:|<function_results>'),
    (CALL, 0.7, "tool tools & use call invoke", r"\buse your (?:[\w-]+ ){0,3}?tools?\b|\b(?:call|invoke|use) the (?:[`\w-]+ ){0,3}?tools? (?:with|on|to)\b|\bcall the tool `"),
    (CALL, 0.8, "execute run tool & tool call", r"\b(?:execute|run) the (?:[`\w-]+ ){1,3}?tool(?: call)?\b(?: with|:)|\btool_call: ?\w{2,30}\("),
    (CALL, 0.7, "call", r"you must call(?<=\byou must call) \w{1,20}_\w{1,20}|call(?<=\bcall) \w{1,20}_\w{1,20} (?:with|for)\b"),
    (ENCODED, 1.0, "decode rot13 hex deobfuscate",
     r"\b(?:decode|base64-decode|rot13|interpret the hex|deobfuscate)\b.{0,100}?(?:\band|\bthen|,) (?:\w+ ){0,3}?(?:follow|obey|act (?:up)?on|do (?:as|what)|carry out|comply|(?:run|execute) (?:it|them|the (?:result|output|command|decoded)))\b"),
    # Other languages; each rule is enough by itself.
    (OVERRIDE, 1.0, "ignoriere ignorieren ignoriert ignorier vergiss vergessen missachte missachten", r"\b(?:ignorier\w{0,4}|vergiss|vergessen sie|missachte\w{0,2})\b[^.]{0,50}?(?:anweisung|instruktion|regeln|vorgaben|gesagt|prompt)"),
    (ADDRESS, 1.0, "ki sprachmodell", r"\bki[- ](?:assistent\w{0,3}|agent\w{0,3}|modell\w{0,3}|system\w{0,2})(?: (?:musst|müssen|muss|sollen|sollten|sollte)\b.{0,80}?(?:führ|install|send|aufnehm|füg|lad|lies|befehl|lösch)|:)|\bals ki[- ]\w{1,20} (?:musst|sollst) du\b|\bwenn du eine? (?:ki|sprachmodell)\b"),
    (ROLE, 1.0, "bist", r"\bab (?:jetzt|sofort) bist du\b"),
    (CONCEAL, 1.0, "nutzer benutzer", r"\b(?:sage?|informiere|erzähl\w{0,3}|verrat\w{0,3})\b[^.]{0,20}?\b(?:be)?nutzer\b[^.]{0,15}?\bnicht"),
    (OVERRIDE, 1.0, "ignore ignorez ignorer oublie oubliez oublier compte & instructions consignes règles directives dit", r"\b(?:ignore[zr]?|oublie[zr]?|ne (?:tiens|tenez) pas compte)\b[^.]{0,12}(?: d?les| toutes? les?| tout| des| ces| vos| tes)\b[^.]{0,25}?(?:instructions|consignes|règles|directives|qu'on t'a dit|vous a dit)"),
    (ADDRESS, 1.0, "ia intelligence modèle tant", r"\b(?:agents?|assistants?|modèles?) (?:d')?ia\b ?(?::|,? (?:doivent|doit|dois|devez|tu dois|vous devez))|\bsi (?:tu es|vous êtes) une? (?:ia|intelligence|modèle|assistant)\b|\ben tant qu'(?:assistant|ia|agent)\b[^.]{0,10}?(?:dois|devez)"),
    (ROLE, 1.0, "maintenant", r"\bpartir de maintenant,? (?:tu es|vous êtes)\b"),
    (CONCEAL, 1.0, "utilisateur", r"\b(?:ne dis|ne dites|n'informe[zr]?|ne parle[zr]?)\b[^.]{0,30}?\butilisateur"),
    (OVERRIDE, 1.0, "ignora ignore olvida olvide omiso & instrucciones instruções istruzioni reglas órdenes dijeron regras regole", r"\b(?:ignor[ae]|olvid[ae]|haz caso omiso de)\b[^.]{0,30}?(?:instrucciones|instruções|istruzioni|reglas|órdenes|te dijeron|regras|regole)"),
    (ADDRESS, 1.0, "ia modelo asistente", r"\b(?:agentes?|asistentes?|assistentes?|modelos?) de ia\b ?(?::|,? (?:deben|debes|debe|devem|deve))|\bsi eres una? (?:ia|modelo|asistente)\b"),
    (ROLE, 1.0, "eres", r"\ba partir de ahora eres\b"),
    (CONCEAL, 1.0, "usuario usuário utente", r"\b(?:no le digas|no informes|não (?:diga|informe)|sem avisar|non dire)\b[^.]{0,20}?(?:usuario|usuário|utente)"),
    (OVERRIDE, 1.0, "negeer zignoruj", r"negeer [^.]{0,30}?instructies|zignoruj [^.]{0,30}?instrukcj"),
)  # fmt: skip

EVERY_RULE = RULES + _rules(
    (OVERRIDE, 1.0, "", r"(?:игнорируй|забудь)[^.]{0,40}?(?:инструкци|указани|правил)|تجاهل[^.]{0,30}?(?:التعليمات|الأوامر)"),
    (ADDRESS, 1.0, "", r"\bесли (?:ты|вы) (?:ии|языковая модель|искусственный)|\bии-(?:агент|ассистент)\w{0,3} (?:долж|обяз)"),
    (OVERRIDE, 1.0, "", r"(?:忽略|无视|忘记|忘掉|忽視)[^。]{0,12}?(?:指令|指示|提示|规则|規則|告知|一切|命令)|(?:指示|命令|ルール|プロンプト)を?(?:すべて|全て)?無視"),
    (OVERRIDE, 1.0, "", r"(?:지시|명령|지침)[^.]{0,8}?무시"),
    (ADDRESS, 1.0, "", r"(?:ai ?(?:助手|代理|模型|智能体|アシスタント|エージェント)|大?[语語]言模型|人工智能助手)(?:必须|须|应当|应该|需要|請|请|：|は、?[^。]{0,40}?なければ)|如果你是(?:一个)?(?:人工智能|ai|语言模型|助手)|作为(?:一个)?(?:ai|人工智能)[^。]{0,6}?你(?:必须|应|需)"),
    (ROLE, 1.0, "", r"[从從][现現]在(?:开始|起|開始)，?你(?:是|将|必须)"),
    (CONCEAL, 1.0, "", r"(?:不要|别|请勿)(?:告诉|通知|告訴)用[户戶]|(?:不要|别|请勿)向用[户戶](?:透露|提及|说)"),
)  # fmt: skip

# These count only together with others.
WEAK = (
    (0.4, r"\b(?:curl|wget)\b.{1,100}?\| ?(?:sudo )?(?:ba|z)?sh\b|\brm -rf|authorized_keys|/etc/(?:passwd|shadow)|\bchmod -r|--force\b"
                     r"|\bsudo\b|bashrc|os\.system|-auto-approve|\bid_rsa"),
    (0.4, _PRIVATE),
    (0.2, r"\b(?:run|execute|carry out|act (?:up)?on|follow|obey|delete|upload|send|insert|publish|fetch|download|push)\b"),
    (0.3, r"\bregardless of\b|\b(?:in|of|from|to) (?:your|the|every|each) (?:next |final )?(?:answer|reply|response|summary|output)\b|\bas your next\b"
                     r"|\bbefore (?:you answer|answering|returning results)|\bthis (?:page|readme|document|text|file)\b|\byour (?:current |assigned )?task\b|\bimmediately\b"),
    (0.3, r"\byou (?:must|have to|need to|may)\b|\binstead\b|\b(?:without|no|any) (?:\w+ )?(?:restrictions|guardrails|rules|filters)\b"
                     r"|\bend of (?:context|document|file)"),
)  # fmt: skip

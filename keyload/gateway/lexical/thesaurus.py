"""A small thesaurus: verbs that ask for the same thing, nouns that name it, words that only hold a sentence together.

Single words, no phrases, and nothing that knows a tool (GTW-21).
"""

from __future__ import annotations

VERBS: dict[str, str] = {
    "read": "get read fetch show view display see open load retrieve obtain give tell return inspect look",
    "list": "list browse enumerate show scan",
    "find": "find search lookup locate seek discover where which who query",
    "create": "create make add new register start begin build generate setup define compose establish",
    "write": "write put store save insert upsert set keep record log",
    "update": "update change modify edit replace configure alter adjust revise correct amend",
    "delete": "delete remove erase drop purge clear trim wipe discard destroy",
    "reclaim": "reclaim free clean cleanup purge prune collect vacuum",
    "send": "send publish post emit push enqueue submit broadcast deliver notify",
    "receive": "receive pull take consume dequeue lease poll claim pop grab next",
    "finish": "complete finish ack acknowledge done confirm commit conclude handled succeed",
    "cancel": "cancel abort stop terminate revoke withdraw abandon",
    "move": "move rename relocate shift migrate archive",
    "reschedule": "reschedule postpone move delay shift",
    "pause": "pause suspend freeze halt stop hold",
    "resume": "resume unpause continue restart unfreeze proceed",
    "compute": "calculate compute aggregate sum average total count statistics summarize determine evaluate",
    "follow": "watch follow subscribe listen monitor track observe tail",
    "grant": "grant permit allow authorize permission access privilege right entitle",
    "copy": "backup copy snapshot export dump duplicate clone",
    "upload": "upload attach import transfer",
    "download": "download fetch save export",
    "explain": "explain describe tell clarify detail what how why",
    "check": "check verify validate test confirm examine ensure whether",
    "compare": "compare difference differ versus contrast",
    "convert": "convert translate transform turn change exchange",
    "order": "book reserve order buy purchase schedule rent hire",
    "recommend": "recommend suggest advise propose idea recommendation suggestion advice",
    "analyse": "analyze analyse analysis examine assess evaluate study insight inspect",
    "draw": "draw paint sketch plot render illustrate visualize design",
    "learn": "learn teach study practice train educate education lesson course tutor",
    "play": "play game quiz",
    "attach": "link connect join relate relation relationship attach",
    "retry": "retry again redo repeat nack requeue",
    "repair": "fix repair heal solve resolve troubleshoot debug",
    "summarise": "summarize summarise summary overview digest brief abstract synopsis",
    "help": "help assist support guide assistance",
    "review": "review inspect audit check",
}
"""Concept to the verbs, and words used like verbs, that ask for it; a word may ask for several."""

NOUNS: dict[str, str] = {
    "file": "file pdf document attachment doc docx zip folder",
    "image": "image picture photo photograph drawing illustration graphic",
    "film": "movie film cinema show series tv",
    "music": "music song track playlist album artist band melody",
    "job": "job career employment vacancy position hiring work",
    "task": "job task work assignment todo",
    "car": "car vehicle automobile auto",
    "trip": "trip travel journey vacation holiday tour itinerary destination",
    "stay": "hotel accommodation lodging hostel apartment",
    "food": "food meal dish recipe cook diet ingredient nutrition calorie",
    "money": "money payment pay paid unpaid refund price cost cash",
    "give back": "refund return reimbursement back",
    "currency": "currency exchange dollar euro yen pound",
    "share": "stock share equity",
    "invest": "investment invest portfolio fund finance financial",
    "weather": "weather rain snow wind temperature sunny forecast",
    "soccer": "soccer football",
    "child": "child children kid son daughter toddler",
    "paper": "paper article publication research scholarly academic literature",
    "language": "language translation grammar vocabulary pronunciation",
    "law": "law legal lawyer court lawsuit statute",
    "person": "person user member people",
    "buyer": "customer client buyer",
    "agent": "agent user identity account principal",
    "site": "website site webpage web page url link",
    "date": "date day today tomorrow tonight monday tuesday wednesday thursday friday saturday sunday week weekend",
    "time": "time hour morning afternoon evening noon lunch midnight",
    "forecast": "forecast prediction tomorrow weekend upcoming",
    "past": "yesterday history historical past previous earlier log ago timeline",
    "now": "now current currently today present live latest",
    "newest": "latest newest recent last current fresh",
    "meeting": "meeting appointment event sync call standup",
    "place": "place location city town region area district country",
    "near": "near nearby nearest close closest similar around neighbour neighbor",
    "error": "error failure bug problem issue fault broken wrong",
    "copy": "copy duplicate replica backup",
    "code": "code source program programming script defined symbol function class snippet",
    "pull request": "pr prs pull merge",
    "vulnerability": "vulnerability cve advisory exploit",
    "parcel": "parcel package shipment delivery shipping",
    "mail": "email mail inbox e-mail",
    "number": "amount number quantity many much count",
    "size": "size big large length bytes huge gb mb kb",
    "record": "record row document entity object item entry",
    "part": "part chunk piece slice segment fragment block",
    "end": "end expire expiry expiration expired deadline due",
    "delay": "late later delay behind lag",
    "interval": "interval period window range span duration between",
    "chart": "chart graph diagram plot visualization histogram",
    "house": "house home property apartment estate rent",
    "present": "gift present",
    "discount": "discount coupon deal promo sale cheap cheaper bargain",
    "health": "health healthy medical doctor disease symptom patient",
    "fitness": "fitness workout exercise gym training",
    "key": "key credential password secret token",
    "shop": "shop shopping store product buy purchase",
    "space": "space storage disk room memory",
    "state": "status state progress condition healthy health",
}
"""Concept to the everyday nouns that may stand for each other."""

IRREGULAR = dict(
    pair.split("=")
    for pair in """kept=keep sent=send took=take taken=take wrote=write written=write ran=run made=make found=find
    held=hold went=go gone=go gave=give given=give began=begin begun=begin chose=choose chosen=choose bound=bind
    built=build bought=buy paid=pay sold=sell told=tell knew=know known=know left=leave met=meet said=say saw=see
    seen=see shown=show spent=spend taught=teach thought=think won=win done=do broke=break broken=break stolen=steal
    stood=stand fell=fall fallen=fall grew=grow grown=grow hidden=hide lost=lose rose=rise risen=rise spoke=speak
    spoken=speak stuck=stick swept=sweep threw=throw thrown=throw woke=wake worn=wear wore=wear caught=catch
    brought=bring drew=draw drawn=draw drove=drive driven=drive ate=eat eaten=eat flew=fly flown=fly froze=freeze
    frozen=freeze led=lead lent=lend came=come became=become people=person children=child men=man women=woman
    indices=index vertices=vertex matrices=matrix bought=buy slept=sleep felt=feel heard=hear
    """.split()
)
"""Forms that no rule leads back to their word."""

INTENTS: dict[str, str] = {
    "read": "read list find explain check review download",
    "change": "create write update upload grant attach",
    "delete": "delete reclaim",
    "cancel": "cancel",
    "send": "send",
    "receive": "receive",
    "finish": "finish",
    "pause": "pause",
    "resume": "resume",
    "move": "move reschedule",
    "compute": "compute",
}
"""What a verb wants to happen; a tool that does something else fits worse."""

ENGLISH = frozenset(
    """a about after all also am an and any anybody anyone anything are as at be because been before being
    but by can
    cannot cant could couldnt did didnt do does doesnt doing done dont each either else ever every
    everything for from
    had has hasnt have havent having he hello her here hers hey hi him his how i id if ill im in instead
    into is isnt
    it its itself ive just let lets like made make makes may maybe me might mine more most much must my
    myself need
    needed needs no nor not now of off ok okay on once one only onto or other our ours out own per perhaps
    please pls
    quite rather really same shall she should shouldnt since so some somebody someone something still such
    than thank
    thanks that thats the their theirs them then there theres these they theyre thing things this those
    through thus
    to too us use used using very via want wanted wants was wasnt we well were weve what whats when where
    wheres
    which while who whom whos whose why will with within without wont would wouldnt yes yet you youd youll
    your youre
    yours yourself youve get got getting able looking look id interested trying try actually currently
    simply exactly
    help going go way lot away know tell
    """.split()
)
"""Words that hold an English sentence together."""

OTHERS = frozenset(
    """de la el los las un una unos unas y o en que con por para del al lo se su sus mi mis tu tus es esta
    este esto estos estas ese esa eso como cual cuales quiero quiere necesito puedo puede puedes hay le les
    me te nos muy mas pero si donde cuando quien todo toda todos todas favor ser fue era hacer
    der die das den dem des ein eine einen einem einer eines und oder in im ist sind mit von vom zu zum zur
    auf fur fuer an am als auch aus bei bis ich du er sie es wir ihr mein meine meinen meinem meiner dein
    deine sein seine unser unsere nicht kein keine wie was wer wo wann welche welcher welches kann konnen
    mochte will bitte mir mich uns nach uber diese dieser dieses diesen noch nur alle aller allen werden
    wird habe haben
    le les une des du au aux et ou en dans que qui quoi dont est sont avec pour par sur pas ne ce cet cette
    ces mon ma mes ta tes sa ses notre nos votre vos leur leurs je nous vous il elle ils elles on se me te y
    quel quelle quels quelles voudrais veux peux peut faire tout toute tous toutes etre ete ai ont j l d c
    qu n s m t
    і й та а але або чи що як у в на з із зі до для від по про за при над під це цей ця ці той та те ті мій
    моя моє мої твій наш ваш його її їх я ти він вона воно ми ви вони не так ні є був була було були бути
    хто де коли чому який яка яке які мені мене хочу треба потрібно можна може щоб усі всі весь все будь
    ласка до після через без
    """.split()
)
"""The same of Spanish, German, French and Ukrainian, accents folded."""

FUNCTION_WORDS = ENGLISH | OTHERS

SOFT_WORDS = frozenset(
    """provide provided provides assist assistance recommend recommended recommendation recommendations suggest suggestion
    suggestions information info detail details detailed specific specifically particular various including include
    included comprehensive several many current currently good great best better nice perfect suitable relevant useful
    available possible new different certain few couple option options idea advice require required
    requires request requesting wish desire hope love prefer enjoy ensure enable allow allows become come comes coming
    plan planning think thinking believe feel hear heard wonder wondering curious learn understand understanding
    find finding show give given giving use utilize offer offers obtain explore exploring discover seek seeking ask
    asking answer question example instance based related regarding concerning according help helpful assistance
    easily quickly effectively efficiently especially together first last next today time way ways people someone user
    users high low little able urgent urgently kindly hello thank
    """.split()
)
"""Words of many English requests that say little about the task: they count, but less."""

CJK_FUNCTION = (
    "的 了 在 把 被 和 与 或 吗 呢 吧 我 你 他 她 它 我们 请 给 想 要 这 那 这个 那个 一个 一下 是 有 中 里 从 到 对 为 将 所有 如何 怎么 什么 "
    "哪 哪些 需要 可以 の を に は が で と も へ や から まで より する して した します ください たい です ます こと もの これ それ この その "
    "ある いる あり なに 何 どの どう ように ため"
).split()
"""Words and particles of Chinese and Japanese that carry no task."""

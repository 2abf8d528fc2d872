//! A history of the kernel target: the command line of an experiment, so that a command repeats it, and a shorter one, too.

use std::collections::BTreeSet;

use warikomi_clock::Dice;

/// What happens in a history, and so which experiment has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Packets come.
    Receives,
    /// The guest sends.
    Sends,
    /// Something strikes at a place in the driver's code.
    Strikes,
}

/// Flags of an experiment, each once but for faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::soak) struct Line {
    pub(super) kind: Kind,
    flags: Vec<(&'static str, String)>,
}

/// The argument of `at` that has no name.
pub(super) const PLACE: &str = "place";

/// The place that is each register access.
pub(super) const ANY_ACCESS: &str = "any access";

/// What `transmit` needs to send in a kernel.
const OF_SENDING: [&str; 2] = ["--target", "kernel"];

/// What a line has in any case: without it, it is another one, or a longer one.
const KEPT: [&str; 9] =
    ["seed", "count", "senders", "sizes", "interrupts", "bursts", "tso", "repeat", PLACE];

/// The plainest value of a flag that is kept.
const PLAINEST: [(&str, &str); 4] =
    [("sizes", "64"), ("interrupts", "napi"), ("bursts", "1"), ("tso", "off")];

impl Line {
    /// Without a flag.
    pub(super) fn new(kind: Kind) -> Line {
        Line { kind, flags: Vec::new() }
    }

    /// Of these flags.
    pub(super) fn of(kind: Kind, flags: &[(&'static str, &str)]) -> Line {
        let flags = flags.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Line { kind, flags }
    }

    pub(super) fn add(&mut self, name: &'static str, value: impl ToString) {
        self.flags.push((name, value.to_string()));
    }

    /// What work takes.
    pub(super) fn costs(&mut self, dice: &mut Dice) {
        for (name, most) in
            [("access-cost", 1_024), ("interrupt-cost", 8_192), ("frame-cost", 16_384)]
        {
            if dice.one_in(2) {
                self.add(name, format!("{}ns", dice.magnitude(32, most)));
            }
        }
    }

    /// The command, without the words behind it.
    pub(super) fn experiment(&self) -> &'static str {
        match self.kind {
            Kind::Receives => "inject",
            Kind::Sends => "transmit",
            Kind::Strikes => "at",
        }
    }

    /// The words of the command line, behind its name.
    pub(super) fn words(&self) -> Vec<String> {
        let target = if self.kind == Kind::Sends { &OF_SENDING[..] } else { &[] };
        let target = target.iter().map(|word| (*word).to_owned());
        let words = self.flags.iter().flat_map(|(name, value)| match *name {
            PLACE => vec![value.clone()],
            name => vec![format!("--{name}"), value.clone()],
        });
        target.chain(["--virtual".to_owned()]).chain(words).collect()
    }

    /// Whether work takes time.
    pub(super) fn has_costs(&self) -> bool {
        self.flags.iter().any(|(name, _)| name.ends_with("-cost"))
    }

    /// What others do not have.
    pub(super) fn features(&self) -> BTreeSet<String> {
        let kind = match self.kind {
            Kind::Receives => "receives",
            Kind::Sends => "sends",
            Kind::Strikes => "strikes",
        };
        let first = |value: &str| value.split(':').next().unwrap_or_default().to_owned();
        let words = |(name, value): &(&'static str, String)| match *name {
            "seed" | "count" | "interval" | "size" | "sizes" | "repeat" => None,
            "fault" | "interrupts" => Some(format!("{name} {}", first(value))),
            "wire" | "arrival" | "receiver" | "gro" | "senders" | "tso" | "operation" => {
                Some(format!("{name} {value}"))
            }
            "deliver" => {
                let what = value.strip_prefix("fault:").map_or(value.clone(), first);
                Some(format!("deliver {what}"))
            }
            PLACE if value == ANY_ACCESS => Some("at a register access".to_owned()),
            PLACE => Some("at an instruction".to_owned()),
            name => Some(name.replace('-', " ")),
        };
        self.flags.iter().filter_map(words).chain([kind.to_owned()]).collect()
    }

    /// Lines with fewer packets, with one flag less, or with a plainer one.
    pub(super) fn shorter(&self) -> Vec<Line> {
        let count = self.flags.iter().position(|(name, _)| *name == "count");
        let fewer = count.into_iter().flat_map(|at| {
            let count: u64 = self.flags[at].1.parse().unwrap_or(1);
            let mut fewer = vec![1, count / 8, count / 2, count - count / 4, count - 1];
            fewer.retain(|fewer| (1..count).contains(fewer));
            fewer.dedup();
            fewer.into_iter().map(move |fewer| self.with(at, fewer.to_string()))
        });
        let left = (0..self.flags.len()).filter(|at| !KEPT.contains(&self.flags[*at].0));
        let without = left.map(|at| {
            let mut line = self.clone();
            line.flags.remove(at);
            line
        });
        let plainer = self.flags.iter().enumerate().filter_map(|(at, (name, value))| {
            let (_, plainest) = PLAINEST.iter().find(|(known, _)| known == name)?;
            (value != plainest).then(|| self.with(at, (*plainest).to_owned()))
        });
        // A flag less is often worth more than packets are: it is the first that is read.
        without.chain(plainer).chain(fewer).collect()
    }

    fn with(&self, at: usize, value: String) -> Line {
        let mut line = self.clone();
        line.flags[at].1 = value;
        line
    }
}

/// Words as a shell takes them.
pub(in crate::soak) fn as_typed(words: impl IntoIterator<Item = String>) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_+./:,=@%".contains(letter);
    let typed =
        words.into_iter().map(|word| match !word.is_empty() && word.chars().all(is_plain) {
            true => word,
            false => format!("'{}'", word.replace('\'', r"'\''")),
        });
    typed.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_take_them_apart() {
        let typed =
            as_typed(["at", "any access", "it's", "--nth", "3", "1us/32"].map(str::to_owned));
        assert_eq!(typed, r"at 'any access' 'it'\''s' --nth 3 1us/32");
    }
}

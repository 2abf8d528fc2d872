//! Registers of a model as people name them.

use warikomi_nic::ModelInfo;
use warikomi_nic::register::Register;

use crate::error::Error;

/// The BAR and the offset that a name, or an offset such as 0x3e, stands for.
pub(crate) fn register_named(model: &ModelInfo, name: &str) -> Result<(u8, u64), Error> {
    match offset(name) {
        Some(offset) => Ok((model.register_bar, offset)),
        None => row_named(model, name).map(|row| (row.bar, row.offset.into())),
    }
}

/// The row of the model's table that a name, or an offset, stands for.
pub(super) fn row_named(model: &ModelInfo, name: &str) -> Result<&'static Register, Error> {
    let offset = offset(name);
    let is_it = |row: &&Register| match offset {
        Some(offset) => row.bar == model.register_bar && u64::from(row.offset) == offset,
        None => row.name.eq_ignore_ascii_case(name),
    };
    model.registers.iter().find(is_it).ok_or_else(|| {
        let names: Vec<_> = model.registers.iter().map(|register| register.name).collect();
        let (model, names) = (model.name, names.join(", "));
        Error::Impossible(format!(
            "{model} has no register '{name}'; give an offset such as 0x3e, or one of: {names}"
        ))
    })
}

fn offset(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_is_found_by_name_and_by_offset() {
        let model = warikomi_nic::MODELS[0];
        let known = &model.registers[3];
        let place = (known.bar, u64::from(known.offset));
        assert_eq!(register_named(model, known.name).unwrap(), place);
        assert_eq!(register_named(model, "0x3e").unwrap(), (model.register_bar, 0x3e));
        assert_eq!(row_named(model, "0x3e").unwrap().name, "IntrStatus");
        for name in ["Nothing", "0x3f"] {
            let error = row_named(model, name).unwrap_err().to_string();
            assert!(error.contains(known.name), "{error}");
        }
    }
}

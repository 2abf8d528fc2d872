//! The version of a kernel, as numbers.

use warikomi_kernel::Image;

/// The first three; 0 for one that it does not have.
pub(crate) fn release(image: &Image) -> [u32; 3] {
    let mut numbers = image.info().release.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| numbers.next().unwrap_or(0))
}

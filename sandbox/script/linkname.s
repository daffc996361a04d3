// This file lets the compiler accept the bodiless declarations that
// go:linkname provides.

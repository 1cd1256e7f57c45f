// Package meter counts what passes between a loop, its source and its target, around them and never inside.
//
//	m := meter.New()
//	dialect = m.Dialect(dialect)
//	session = m.Session(session)
//	figures := m.Figures()
//
// To count costs a few atomic additions for each call, and nothing for each mutation. Figures may be asked for by anybody at any
// time. Capabilities of what is wrapped are found with Unwrap.
package meter

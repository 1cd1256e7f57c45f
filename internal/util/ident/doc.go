// Package ident turns the names of a source into names of a SQL database: it quotes them, and it
// finds a free name where a database cannot take the source's.
//
// Every name is quoted and keeps its case. A name stays as it is unless the database cannot hold it
// or it is taken in its namespace (the columns of one table, the tables of one schema). Then, in
// this order:
//
//  1. A name that is taken, or reserved, in the very same spelling gets the suffix that its owner
//     asks for: a tag "_tag", a field "_field".
//  2. A name that is too long, not UTF-8, empty, holds a NUL, begins in a way that the database
//     keeps for itself, or differs from a taken one by case alone where the database cannot tell
//     them apart, or whose name with the suffix is taken, gets "_" and eight hexadecimal digits of a
//     SHA-256 of the original behind it; more of them, and then those of another hash, if that is taken
//     too. Too long names are cut to make room, at a character's boundary.
//
// The first to come keeps the plain name. Callers store what was chosen, so that a name, once given,
// stays.
package ident

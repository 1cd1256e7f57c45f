package main

import (
	"context"
	"database/sql"
	"strings"

	_ "github.com/ncruces/go-sqlite3/driver" // the driver "sqlite3"

	"github.com/tailrace-cdc/tailrace/logical"
)

// tables makes tables in the database: those of a database are the program's to make, and not the loop's.
type tables struct{ *sql.DB }

func openTables(path string) (tables, error) {
	db, err := sql.Open("sqlite3", "file:"+path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)")
	return tables{db}, err
}

// ensure makes the table of a relation, if it is not there. All columns are text.
func (t tables) ensure(ctx context.Context, rel *logical.Relation) error {
	var columns []string
	for _, c := range rel.Columns {
		column := quote(c.Name) + " TEXT"
		if c.Key {
			column += " PRIMARY KEY NOT NULL"
		}
		columns = append(columns, column)
	}
	_, err := t.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+quote(rel.Name)+" ("+strings.Join(columns, ", ")+")")
	return err
}

// quote makes a name an SQL identifier.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

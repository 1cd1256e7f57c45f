package sqlite

import (
	"fmt"

	"github.com/ncruces/go-sqlite3"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// own makes sure that a table of the user's holds the rows of one table of the source alone. Two may have one name here:
// there are no schemas, and case makes no difference. The first to come has it, also after a restart.
func (w *writer) own(t *table, rel *logical.Relation) error {
	schema := rel.Schema
	if w.cfg.isDefault(schema) {
		schema = ""
	}
	var owner logical.Relation
	found := false
	err := w.query("SELECT schema_name, name FROM _tailrace_owners WHERE target = ?", func(s *sqlite3.Stmt) error {
		owner.Schema, owner.Name, found = s.ColumnText(0), s.ColumnText(1), true
		return nil
	}, t.name)
	switch {
	case err != nil:
		return err
	case !found:
		w.ddl = true // what was planned by it is forgotten if this is rolled back
		return w.exec("INSERT INTO _tailrace_owners (target, schema_name, name) VALUES (?, ?, ?)", t.name, schema, rel.Name)
	case owner.Schema != schema || owner.Name != rel.Name:
		return retry(errors.Errorf("sqlite: table %q of %s holds the rows of %q of schema %q, and cannot hold those of %q of schema %q too",
			t.name, w.cfg.Path, owner.Name, owner.Schema, rel.Name, schema),
			fmt.Sprintf("rename one of them at the source; or, if the first is gone: DELETE FROM _tailrace_owners WHERE target = '%s'", t.name))
	}
	return nil
}

// isDefault reports whether a schema's tables have no prefix here.
func (c *Config) isDefault(schema string) bool {
	return schema == "" || schema == "main" || schema == c.Schema
}

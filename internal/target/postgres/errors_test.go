package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailrace-cdc/tailrace/logical"
)

func TestClassOfEachSQLState(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code  string
		class logical.Class
		hint  string
	}{
		{"08006", logical.ClassRetry, "can be reached"},
		{"08P01", logical.ClassRetry, ""},
		{"0A000", logical.ClassRetry, "read again"},
		{"21000", logical.ClassReject, ""},
		{"22001", logical.ClassReject, ""},
		{"22003", logical.ClassReject, ""},
		{"22P02", logical.ClassReject, ""},
		{"22021", logical.ClassReject, ""},
		{"23502", logical.ClassReject, ""},
		{"23503", logical.ClassConstraint, ""},
		{"23505", logical.ClassConstraint, ""},
		{"23514", logical.ClassReject, ""},
		{"23P01", logical.ClassConstraint, ""},
		{"25006", logical.ClassRetry, "primary"},
		{"25P03", logical.ClassRetry, "idle"},
		{"28P01", logical.ClassRetry, "password"},
		{"28000", logical.ClassRetry, "pg_hba"},
		{"3D000", logical.ClassRetry, "create the database"},
		{"3F000", logical.ClassRetry, "schema"},
		{"40001", logical.ClassConflict, ""},
		{"40P01", logical.ClassConflict, ""},
		{"40003", logical.ClassUnknownCommit, ""},
		{"42501", logical.ClassRetry, "grant"},
		{"42601", logical.ClassRetry, "the server says"},
		{"42701", logical.ClassRetry, "a column of that name"},
		{"42703", logical.ClassRetry, "column"},
		{"42710", logical.ClassRetry, "a type"},
		{"42939", logical.ClassRetry, "keeps that name"},
		{"42P07", logical.ClassRetry, "a table, index or view"},
		{"42P10", logical.ClassRetry, "unique index"},
		{"42804", logical.ClassRetry, "read again"},
		{"42P01", logical.ClassRetry, "table"},
		{"44000", logical.ClassReject, ""},
		{"53100", logical.ClassRetry, "free space"},
		{"53200", logical.ClassRetry, "memory"},
		{"53300", logical.ClassRetry, "max_connections"},
		{"54000", logical.ClassReject, ""},
		{"55P03", logical.ClassRetry, "lock"},
		{"57014", logical.ClassRetry, "apply timeout"},
		{"57P01", logical.ClassRetry, "administrator"},
		{"57P03", logical.ClassRetry, "starting"},
		{"58030", logical.ClassRetry, "disk"},
		{"P0001", logical.ClassReject, ""},
		{"XX000", logical.ClassRetry, "log"},
		{"99999", logical.ClassRetry, ""},
	} {
		err := classify(context.Background(), fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: c.code, Message: "m", Detail: "d"}))
		if logical.ClassOf(err) != c.class || !strings.Contains(logical.HintOf(err), c.hint) {
			t.Errorf("%s: class %v, hint %q", c.code, logical.ClassOf(err), logical.HintOf(err))
		}
		if sqlState(err) != c.code || !strings.Contains(err.Error(), "m: d (SQLSTATE "+c.code+")") {
			t.Errorf("%s: %v", c.code, err)
		}
	}
}

func TestErrorOfTheContextStaysOne(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := classify(ctx, &pgconn.PgError{Code: "57014", Message: "canceling statement due to user request"})
	if !errors.Is(err, context.Canceled) || logical.ClassOf(err) != logical.ClassRetry {
		t.Errorf("got %v", err)
	}
}

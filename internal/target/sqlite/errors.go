package sqlite

import (
	"context"
	stderrors "errors"
	"strings"
	"syscall"

	"github.com/ncruces/go-sqlite3"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

func retry(err error, hint string) error {
	return &logical.Error{Err: err, Class: logical.ClassRetry, Hint: hint}
}

func fenced(loop string) error {
	return &logical.Error{
		Err:   errors.Errorf("sqlite: the epoch of loop %q belongs to somebody else", loop),
		Class: logical.ClassFenced,
	}
}

// classify gives an error of SQLite its class and a hint, and notes when the connection cannot be
// used any more. What is no error of SQLite, or has a class already, passes through.
func (w *writer) classify(err error, doing string) error {
	if err == nil {
		return nil
	}
	if _, done := stderrors.AsType[*logical.Error](err); done {
		return err
	}
	var code sqlite3.ErrorCode
	if !errors.As(err, &code) {
		return errors.Wrap(err, "sqlite: "+brief(doing))
	}
	if code == sqlite3.INTERRUPT && w.db != nil {
		if cause := w.db.GetInterrupt().Err(); cause != nil {
			return errors.Wrap(cause, "sqlite: "+brief(doing))
		}
	}
	var extended sqlite3.ExtendedErrorCode
	errors.As(err, &extended)
	class, hint, broken := classOf(code, extended)
	if stderrors.Is(err, syscall.ENOSPC) || code == sqlite3.IOERR && diskFull(w.cfg.Path) {
		hint = hintFull
	}
	w.broken = w.broken || broken
	return &logical.Error{
		Err:   errors.Wrapf(err, "sqlite: %s: %s", w.cfg.Path, brief(doing)),
		Class: class,
		Hint:  hint,
	}
}

// classifyCommit is classify for COMMIT. After an I/O error the commit record may or may not have
// reached the disk, and only a new look at the file tells.
func (w *writer) classifyCommit(err error) error {
	classified := w.classify(err, "commit")
	var code sqlite3.ErrorCode
	if errors.As(err, &code) && code == sqlite3.IOERR {
		if e, ok := stderrors.AsType[*logical.Error](classified); ok {
			e.Class = logical.ClassUnknownCommit
		}
	}
	return classified
}

const (
	hintFull = "free space on the file system of the database"
	hintBusy = "another program holds the write lock of the database: end its transaction"
)

// classOf says what may be done about a result code of SQLite, and whether the connection has to be
// opened anew.
func classOf(code sqlite3.ErrorCode, extended sqlite3.ExtendedErrorCode) (class logical.Class, hint string, broken bool) {
	switch code {
	case sqlite3.BUSY, sqlite3.LOCKED:
		return logical.ClassRetry, hintBusy, false
	case sqlite3.FULL:
		return logical.ClassRetry, hintFull, false
	case sqlite3.READONLY, sqlite3.PERM, sqlite3.AUTH:
		return logical.ClassRetry, "make the database file and its directory writable for the user that Tailrace runs as", true
	case sqlite3.CANTOPEN:
		return logical.ClassRetry, "check that the directory of the database exists and may be written to by the user that Tailrace runs as", true
	case sqlite3.NOTADB:
		return logical.ClassRetry, "the file is no SQLite database, or an encrypted one: move it away, or name another file", true
	case sqlite3.CORRUPT:
		return logical.ClassRetry, "the file is damaged: stop Tailrace, keep a copy, and repair it with \"sqlite3 FILE .recover\" or restore a backup", true
	case sqlite3.IOERR, sqlite3.PROTOCOL, sqlite3.NOMEM, sqlite3.INTERNAL:
		return logical.ClassRetry, "check the disk and the system's log", true
	case sqlite3.CONSTRAINT:
		return constraintClass(extended), "", false
	case sqlite3.TOOBIG, sqlite3.MISMATCH:
		return logical.ClassReject, "", false
	}
	return logical.ClassRetry, "", false
}

// constraintClass tells what may be cured by another order of application from what may not.
func constraintClass(extended sqlite3.ExtendedErrorCode) logical.Class {
	switch extended {
	case sqlite3.CONSTRAINT_UNIQUE, sqlite3.CONSTRAINT_PRIMARYKEY, sqlite3.CONSTRAINT_ROWID, sqlite3.CONSTRAINT_FOREIGNKEY:
		return logical.ClassConstraint
	}
	return logical.ClassReject
}

// isSchemaError reports whether a statement failed because the schema is not what was planned for.
func isSchemaError(err error) bool {
	var code sqlite3.ErrorCode
	return errors.As(err, &code) && (code == sqlite3.ERROR || code == sqlite3.SCHEMA)
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// brief shortens a statement for messages.
func brief(doing string) string {
	doing, _, _ = strings.Cut(strings.TrimSpace(doing), "\n")
	if len(doing) > 120 {
		return strings.ToValidUTF8(doing[:120], "") + "…"
	}
	return doing
}

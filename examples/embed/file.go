package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

const (
	// blockBytes is how much of a file is read at once, and so the longest row that there can be.
	blockBytes = 1 << 20
	// blockRows is how many rows make one transaction at most.
	blockRows = 500
)

// A block is some rows of a file: one transaction.
type block struct {
	at   position // behind its rows
	rel  *logical.Relation
	rows [][]string
	size int
	time time.Time // when the file was last written to
}

// A table is a CSV file: its first line names the columns, and the first column is the key.
type table struct {
	path string
	rel  *logical.Relation // nil until the first line has been read
}

// next reads the next rows of the file after an offset, as far as they are complete: none if there are
// none. A line that is being written is left for later.
func (t *table) next(offset int64) (rows [][]string, end int64, written time.Time, err error) {
	file, err := os.Open(t.path)
	if err != nil {
		return nil, 0, time.Time{}, err
	}
	defer func() { _ = file.Close() }() // it is only read
	info, err := file.Stat()
	if err != nil {
		return nil, 0, time.Time{}, err
	}
	if info.Size() < offset {
		return nil, 0, time.Time{}, fmt.Errorf("%s: it has become shorter; rows may only be added", t.path)
	}
	text := make([]byte, min(blockBytes, info.Size()-offset))
	n, err := file.ReadAt(text, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, time.Time{}, err
	}
	rows, used, err := parse(text[:n])
	if err == nil && used == 0 && n == blockBytes {
		err = fmt.Errorf("a row is longer than %d bytes", blockBytes)
	}
	if err != nil {
		return nil, 0, time.Time{}, fmt.Errorf("%s: after byte %d: %w", t.path, offset, err)
	}
	return rows, offset + int64(used), info.ModTime(), nil
}

// parse returns the complete rows at the beginning of a text, and how many bytes they are.
func parse(text []byte) (rows [][]string, used int, err error) {
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	reader := csv.NewReader(bytes.NewReader(text))
	reader.FieldsPerRecord = -1
	for len(rows) < blockRows {
		row, err := reader.Read()
		switch {
		case errors.Is(err, io.EOF):
			return rows, used, nil
		case err != nil && reader.InputOffset() == int64(len(text)):
			return rows, used, nil // a field that is being written may have a line end in it
		case err != nil:
			return nil, 0, err
		}
		rows, used = append(rows, row), int(reader.InputOffset())
	}
	return rows, used, nil
}

// describe makes the relation of the columns.
func (t *table) describe(columns []string) error {
	rel := &logical.Relation{Name: strings.TrimSuffix(filepath.Base(t.path), ".csv")}
	for i, name := range columns {
		if name == "" {
			return fmt.Errorf("%s: column %d has no name", t.path, i+1)
		}
		rel.Columns = append(rel.Columns, logical.Column{Name: name, Kind: logical.KindText, Key: i == 0})
	}
	t.rel = rel
	return nil
}

// mutations makes the upserts of a block's rows.
func (b *block) mutations() ([]logical.Mutation, error) {
	muts := make([]logical.Mutation, len(b.rows))
	for i, row := range b.rows {
		if len(row) != len(b.rel.Columns) {
			return nil, fmt.Errorf("table %s: a row has %d fields and not %d: %q", b.rel.Name, len(row), len(b.rel.Columns), row)
		}
		values := make([]logical.Value, len(row))
		for j, field := range row {
			values[j] = logical.Text(field)
		}
		muts[i] = logical.Mutation{Op: logical.OpUpsert, Relation: b.rel, Values: values}
	}
	return muts, nil
}

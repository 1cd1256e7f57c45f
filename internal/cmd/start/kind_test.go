package start

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
)

// TestBucketOfTheOldTargetIsNoSchema moves the default stream from an InfluxDB to databases, with and without a schema.
func TestBucketOfTheOldTargetIsNoSchema(t *testing.T) {
	t.Parallel()
	store, err := metadata.Open(t.Context(), metadata.Config{Path: filepath.Join(t.TempDir(), "m.db"), Key: bytes.Repeat([]byte{1}, metadata.KeySize)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	for _, step := range []struct{ conn, schema, want string }{
		{"http://h:8086?org=o&bucket=telegraf/autogen", "", "telegraf/autogen"},
		{"postgres://u@h/db", "", ""},
		{"postgres://u@h/db", "plant", "plant"},
		{"postgres://u@other/db", "", "plant"}, // what is not given stays
		{"http://h:8086?org=o&bucket=b", "", "b"},
	} {
		c := DefaultConfig()
		c.TargetConn, c.TargetSchema = step.conn, step.schema
		made, err := seed(t.Context(), c, store, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		st, err := store.Stream(t.Context(), made.Stream)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if st.RemoteBucketName != nil {
			got = *st.RemoteBucketName
		}
		if got != step.want {
			t.Errorf("%s: it goes to %q, want %q", step.conn, got, step.want)
		}
	}
}

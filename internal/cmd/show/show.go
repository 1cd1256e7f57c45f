// Package show writes what a command has found: as tables for people, or as JSON for scripts.
package show

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/pkg/errors"
	"github.com/spf13/cobra"
)

// Flag defines --json.
func Flag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "write JSON, as the API answers it")
}

// JSON writes a document.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return errors.WithStack(enc.Encode(v))
}

// A Table is rows below a headline.
type Table struct {
	head []string
	rows [][]string
}

// NewTable returns a table with these columns.
func NewTable(head ...string) *Table { return &Table{head: head} }

// Row adds a row.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// Write writes the table; without rows it writes what there is none of.
func (t *Table) Write(w io.Writer, none string) error {
	if len(t.rows) == 0 {
		_, err := fmt.Fprintln(w, none)
		return errors.WithStack(err)
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i := range row {
			row[i] = OneLine(row[i], widest)
			if row[i] == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return errors.WithStack(tw.Flush())
}

// widest is the most that a cell of a table shows.
const widest = 60

// Facts writes names and what is known of each, one below the other. Those without a value are left out.
func Facts(w io.Writer, pairs ...string) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(tw, "%s\t%s\n", pairs[i], OneLine(pairs[i+1], 0))
		}
	}
	return errors.WithStack(tw.Flush())
}

// OneLine makes text that may be anybody's fit to be shown on a terminal: in one line, without control
// characters, and, unless that is 0, no longer than a number of characters.
func OneLine(text string, most int) string {
	clean := []rune(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text))
	if most > 0 && len(clean) > most {
		clean = append(clean[:most-1], '…')
	}
	return string(clean)
}

// Bytes returns a size as people write it.
func Bytes(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// Seconds returns a time span as people write it; nothing for 0.
func Seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d <= 0:
		return ""
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Time returns when something was; nothing if it never was.
func Time(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Local().Format(time.RFC3339)
}

// YesNo returns yes or no.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

package bench

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/logical"
)

// BenchmarkDecodeAndCopy is the ceiling of a server that takes line protocol and loads it, in one process: one
// goroutine decodes, and four connections COPY what it has decoded, each the points of its series. It has no order, no memo,
// no retries.
func BenchmarkDecodeAndCopy(b *testing.B) {
	const connections = 4
	list := points(400_000)
	blocks := lines(list, 1000)
	for b.Loop() {
		b.StopTimer()
		_, pool := server(b)
		exec(b, pool, fmt.Sprintf(ddl, "copied"))
		b.StartTimer()
		begun := time.Now()
		decodeAndCopy(b, pool, blocks, connections)
		took := time.Since(begun)
		b.StopTimer()
		verify(b, pool, "copied", len(list))
		report(b, len(list), took, copyAgain(b, pool, list, connections))
		b.StartTimer()
	}
}

func copyAgain(b *testing.B, pool *pgxpool.Pool, list []point, connections int) time.Duration {
	b.Helper()
	exec(b, pool, "DROP TABLE copied")
	return copyAll(b, pool, list, connections)
}

// lines writes points as blocks of line protocol.
func lines(list []point, n int) (blocks [][]byte) {
	for len(list) > 0 {
		var block bytes.Buffer
		for i := range list[:min(n, len(list))] {
			p := &list[i]
			fmt.Fprintf(&block, "reading,host=%s,rack=%s,region=%s usage=%s,count=%di,up=%t %d\n",
				p.tags[0], p.tags[1], p.tags[2], strconv.FormatFloat(p.usage, 'g', -1, 64), p.count, p.up, p.time)
		}
		blocks = append(blocks, block.Bytes())
		list = list[min(n, len(list)):]
	}
	return blocks
}

func decodeAndCopy(b *testing.B, pool *pgxpool.Pool, blocks [][]byte, connections int) {
	b.Helper()
	shares := make([]chan []logical.Mutation, connections)
	var all sync.WaitGroup
	for i := range shares {
		shares[i] = make(chan []logical.Mutation, 16)
		all.Go(func() { copyDecoded(b, pool, shares[i]) })
	}
	decoder := lineprotocol.NewDecoder(lineprotocol.DecoderConfig{})
	for _, block := range blocks {
		muts, _, err := decoder.Decode(nil, block, 0)
		if err != nil {
			b.Error(err)
			break
		}
		parts := make([][]logical.Mutation, connections)
		for _, m := range muts {
			at := int(m.Values[1].Bytes()[0]) % connections
			parts[at] = append(parts[at], m)
		}
		for i, part := range parts {
			shares[i] <- part
		}
	}
	for _, share := range shares {
		close(share)
	}
	all.Wait()
}

// copyDecoded loads what it is given, in transactions of up to 8,192 rows.
func copyDecoded(b *testing.B, pool *pgxpool.Pool, share <-chan []logical.Mutation) {
	const batch = 8192
	ctx := context.Background()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		b.Error(err)
		return
	}
	defer conn.Release()
	var part []logical.Mutation
	for more := true; more; {
		n := 0
		_, err := conn.Conn().CopyFrom(ctx, pgx.Identifier{"copied"}, columns, pgx.CopyFromFunc(func() ([]any, error) {
			for len(part) == 0 && more && n < batch {
				part, more = <-share
			}
			if len(part) == 0 || n >= batch {
				return nil, nil
			}
			n++
			row := rowOf(part[0].Values)
			part = part[1:]
			return row, nil
		}))
		if err != nil {
			b.Error(err)
			return
		}
	}
}

// rowOf returns a row of the table: the decoder hands out time, series, tags by key, and fields as they were sent.
func rowOf(v []logical.Value) []any {
	sec, nano := v[0].Unix()
	return []any{
		time.Unix(sec, int64(nano)/1000*1000).UTC(),
		pgtype.UUID{Bytes: [16]byte(v[1].Bytes()), Valid: true},
		int16(nano % 1000),
		v[2].Text(), v[3].Text(), v[4].Text(), v[5].Float64(), v[6].Int64(), v[7].Bool(),
	}
}

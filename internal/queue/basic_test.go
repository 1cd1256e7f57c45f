package queue

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func put(t *testing.T, q *Queue, payloads ...string) (first, last Sequence) {
	t.Helper()
	var g Group
	for _, p := range payloads {
		require.NoError(t, g.Add(KindLineProtocol, 1, []byte(p)))
	}
	r, err := q.Reserve(&g)
	require.NoError(t, err)
	first, last, err = q.Append(context.Background(), r, &g)
	require.NoError(t, err)
	return first, last
}

func TestAppendReadAckReopen(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir()}
	q, err := Open(cfg)
	require.NoError(t, err)
	for i := range 100 {
		put(t, q, fmt.Sprintf("a value=%d", i), fmt.Sprintf("b value=%d", i))
	}
	r, err := q.NewReader(0)
	require.NoError(t, err)
	for i := range 100 {
		a, err := r.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, Sequence(2*i+1), a.Sequence)
		require.Equal(t, fmt.Sprintf("a value=%d", i), string(a.Payload))
		require.False(t, a.Last)
		b, err := r.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("b value=%d", i), string(b.Payload))
		require.True(t, b.Last)
	}
	require.NoError(t, q.Ack(100))
	require.Equal(t, Sequence(101), q.Stats().FirstSeq)
	require.NoError(t, r.Close())
	require.NoError(t, q.Close())

	q2, err := Open(cfg)
	require.NoError(t, err)
	require.Equal(t, q.ID(), q2.ID())
	require.Equal(t, Sequence(100), q2.Cursor())
	require.Equal(t, q.Stats().UnsentBytes, q2.Stats().UnsentBytes)
	r, err = q2.NewReader(0)
	require.NoError(t, err)
	b, err := r.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, Sequence(101), b.Sequence)
	require.NoError(t, r.Close())
	first, _ := put(t, q2, "next")
	require.Equal(t, Sequence(201), first)
	require.NoError(t, q2.Ack(201))
	require.Zero(t, q2.Stats().UnsentBytes)
	require.Empty(t, q2.Stats().Losses)
	require.NoError(t, q2.Close())
}

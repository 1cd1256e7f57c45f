// Package lineprotocol owns InfluxDB's line protocol: what Tailrace accepts of it, the normalised
// form in which it is queued, and how that becomes mutations. docs/line-protocol.md is the same for
// users.
//
//	measurement,tag=value,tag=value field=1.5,field=2i,field="text" 1700000000000000000
//	└─────────── key ─────────────┘ └────────── fields ───────────┘ └── timestamp ────┘
//
// # On the way in
//
// A [Normalizer] reads a request's body and validates every line completely, before anything of it
// is kept. It accepts what InfluxDB's own parser accepts and refuses what that refuses, with the
// line's number. What it yields are blocks of normalised lines, each at most [MaxBlockBytes]:
//
//   - one point per line, and every line ends in a line feed;
//   - one space between key, fields and timestamp, and none elsewhere;
//   - a timestamp in nanoseconds, always there;
//   - no blank lines, no comments;
//   - key and fields byte for byte as they came (but for [Options].AddTag): escapes, raw line feeds in strings, the order and
//     repetition of fields. Encoders differ in escapes, and a string that is decoded and encoded
//     again may be another one.
//
// A line is at most [MaxLineBytes] long; a longer one is refused like one that does not parse.
//
// # On the way out
//
// A [Decoder] turns a block into mutations: typed values for SQL targets, or with
// DecoderConfig.RawOnly the bare lines for another InfluxDB. A point's series is identified by
// [SeriesHash], a hash of its tag set whose definition is frozen for ever.
//
// A [KeyReader] reads measurement and tags only, for whoever chooses between lines, such as package
// filter.
//
// [AppendPoint] writes a line, for points that we make ourselves.
//
// # Where the rules of InfluxDB leave room
//
//   - CRLF ends a line as LF does. InfluxDB refuses it after numbers, and corrupts strings.
//   - A comment ends at the next line feed. (InfluxDB lets quotes and backslashes in a comment hide
//     the lines that follow.)
//   - A line that is refused ends where InfluxDB ends it: not at a line feed within quotes, where a
//     field's value may be. So the text of a string cannot become lines of its own.
//   - Something between a closing quote and the next comma or space is refused; InfluxDB ignores it.
//   - A special byte in a field key that is preceded by an even number of backslashes is refused:
//     InfluxDB's validation and its decoding disagree about it.
//   - Tag keys time, _field and _measurement are refused, as InfluxDB 2.x does.
package lineprotocol

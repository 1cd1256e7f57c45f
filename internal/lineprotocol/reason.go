package lineprotocol

// A reason says why a line is refused. Reasons are small integers, so that a request full of bad
// lines costs no memory for those that are only counted.
type reason uint8

const (
	fine reason = iota
	badMeasurement
	badNoFields
	badTagKey
	badTagValue
	badTagFormat
	badDuplicateTag
	badReservedTag
	badKeyLength
	badKeyLengthWithTag
	badFieldKey
	badFieldKeyEscape
	badFieldFormat
	badFieldValue
	badNumber
	badInteger
	badUnsigned
	badFloat
	badBoolean
	badQuotes
	badAfterValue
	badTimestamp
	badTimeRange
	badAfterTime
	badTooLong
)

var reasonTexts = [...]string{
	fine:                "",
	badMeasurement:      "missing measurement",
	badNoFields:         "missing fields",
	badTagKey:           "missing tag key",
	badTagValue:         "missing tag value",
	badTagFormat:        "invalid tag format: an equals sign in a tag value must be escaped",
	badDuplicateTag:     "duplicate tags",
	badReservedTag:      `cannot use reserved tag key: "time", "_field" and "_measurement" are taken`,
	badKeyLength:        "max key length exceeded: measurement, tags and field key are longer than 65535 bytes",
	badKeyLengthWithTag: "max key length exceeded: measurement, tags and field key are longer than 65535 bytes together with the tag that this server adds",
	badFieldKey:         "missing field key",
	badFieldKeyEscape:   "invalid field key: an even number of backslashes before a comma, space or equals sign is ambiguous",
	badFieldFormat:      "invalid field format: expected field=value",
	badFieldValue:       "missing field value",
	badNumber:           "invalid number",
	badInteger:          "invalid integer: out of range -9223372036854775808 to 9223372036854775807",
	badUnsigned:         "invalid unsigned integer: out of range 0 to 18446744073709551615",
	badFloat:            "invalid float: out of range or malformed",
	badBoolean:          "invalid boolean or number: use t, T, true, True, TRUE, f, F, false, False or FALSE; strings need quotes; NaN and Inf are not supported",
	badQuotes:           "unbalanced quotes",
	badAfterValue:       "invalid field format: expected a comma, a space or the line's end after the value",
	badTimestamp:        "bad timestamp: expected an integer",
	badTimeRange:        "time outside range -9223372036854775806 - 9223372036854775806 nanoseconds",
	badAfterTime:        "invalid point: something follows the timestamp",
	badTooLong:          "line too long",
}

func (r reason) String() string { return reasonTexts[r] }

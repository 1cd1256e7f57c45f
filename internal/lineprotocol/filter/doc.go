// Package filter chooses between points by measurement and by tag, for a stream that replicates only a
// part of its bucket.
//
//	{
//	  "measurements": {"include": ["cpu", "disk*"], "exclude": ["*_debug"]},
//	  "tags":         {"include": ["env=prod*"],    "exclude": ["host=test-??", "tailrace_origin=plant-b"]}
//	}
//
// A point passes if all of this holds:
//
//   - its measurement matches a pattern of measurements.include, or that list is empty;
//   - its measurement matches no pattern of measurements.exclude;
//   - for every tag key that tags.include names, the point's value matches one of that key's patterns;
//   - no pattern of tags.exclude matches.
//
// A pattern is a glob over the whole name or value: * stands for any characters, also none, ? for exactly
// one, and a backslash takes the meaning from what follows it. All else stands for itself, and case
// matters. A pattern for tags is key=glob: the key is up to the first equals sign that is not escaped, and
// is no glob. A tag that a point does not have matches the empty pattern (host=) and no other: host=*
// means the points that have the tag.
//
// Names and values are compared as they are meant, without the escapes of line protocol. Lines are taken
// or left as the bytes that they are; nothing is encoded again.
package filter

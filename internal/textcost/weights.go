package textcost

// weights are the costs of the features, in thousandths of a token. They were fitted by
// bench/vocab/fit to the vocabularies o200k, cl100k, llama3 and gemma2, each of which counts a few
// percent more or less. They minimize the median relative error, with equal weight for each
// kind of texts. Hump and Emoji were set by hand, as the texts have too few of them, and a part of
// HanRun was moved to Han. No weight is 0, so that no long text is free.
var weights = [features]int32{
	Word: 829, WordLetter: 299, Title: 215, Rare: 734, Accent: 689,
	Hump1: 1099, Hump2: 888, Hump3: 862, Hump: 100, Cap: 1505, Caps: 1034, Line: 1866, LineMark: 485,
	Indent: 596, Tabs: 800, Tab: 316, Gap: 1210, Trailing: 2751,
	Marks: 535, MarksSpace: 563, Mark: 425, Repeat: 50,
	Number: 1374, NumberSpace: 566,
	Cyrillic: 1521, CyrillicMore: 172, Greek: 646, GreekMore: 577,
	Arabic: 1113, ArabicMore: 406, Hebrew: 1054, HebrewMore: 734, Indic: 940, IndicMore: 593,
	Kana: 524, Han: 680, HanRun: 620, Hangul: 478, HangulRun: 810, Wide: 314,
	Symbol: 1296, Emoji: 2500, Invalid: 447, Other: 2286,
}

// Groups is the number of groups of features. Vocabularies differ most between groups: one that
// splits numbers into single digits still counts words like the others. Each alphabet is a
// separate group: one that was trained on much Russian may still know little Hebrew.
const Groups = 11

// Count returns the estimated number of tokens by group, in thousandths. The groups are ASCII words,
// marks and ends of lines, white space, numbers, Latin letters with accents, Cyrillic, Greek, Arabic
// and Hebrew letters, those of India and South East Asia, and all else, such as Chinese.
func (f *Features) Count() [Groups]int64 {
	return [Groups]int64{
		f.sum(0, Line), f.sum(Line, Indent), f.sum(Indent, Number), f.sum(Number, Accent),
		f.sum(Accent, Cyrillic), f.sum(Cyrillic, Greek), f.sum(Greek, Arabic), f.sum(Arabic, Hebrew),
		f.sum(Hebrew, Indic), f.sum(Indic, Kana), f.sum(Kana, features),
	}
}

func (f *Features) sum(from, to Feature) int64 {
	n := int64(0)
	for i := from; i < to; i++ {
		n += int64(f[i]) * int64(weights[i])
	}
	return n
}

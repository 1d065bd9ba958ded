"""Words that the tasks are made of; within a list each is there once."""

CITIES = """Oslo Lima Cairo Madrid Berlin Dublin Vienna Prague Warsaw Lisbon Tokyo Seoul Delhi Nairobi Havana Quito Boston
Chicago Denver Seattle Toronto Ottawa Sydney Perth Auckland Moscow Kiev Riga Tallinn Helsinki Stockholm Paris Lyon Milan
Venice Naples Zurich Geneva Brussels Amsterdam Hamburg Munich Bristol Glasgow Cardiff Salzburg Ankara Tehran Baghdad Manila
Jakarta Bangkok Hanoi Dakar Accra Lagos Tunis Rabat Bogota Caracas""".split()

NOUNS = """apple river window bottle garden pencil mountain guitar blanket candle ladder hammer kettle basket bridge castle
curtain desert engine feather forest glove harbor island jacket kitchen lantern mirror needle ocean palace quilt rocket saddle
table umbrella valley wagon yacht zipper anchor barrel carpet dagger easel fountain goblet hedge igloo jewel keyboard lemon
magnet napkin orchard pillow radio scarf teapot uniform violin wallet acorn button camera drum envelope flute grape helmet ink
jar kite lamp marble nest orange paddle ribbon shovel trumpet vase whistle bench cabin diamond fence ghost honey iron jungle
knife leaf market notebook oven piano rope silver tunnel velvet wheel bread cloud dress field flag clock coin copper cotton
crown""".split()

NAMES = """Alice Brian Clara Dylan Emma Frank Grace Henry Irene Jack Karen Leo Maria Nathan Olivia Patrick Quinn Roberta Sidney
Teresa Ursula Victor Wendy Xavier Yvonne Zachary Amanda Boris Cecilia Dennis Eleanor Florian Gemma Harold Isabel Julian Kevin
Laura Martin Nora Oscar Paula Ralph Sophie Trevor Valerie Walter""".split()

ANIMALS = """dog cat tiger rabbit parrot goat pony pig duck goose turtle snake lizard frog hamster donkey camel monkey fox
wolf otter owl eagle crow swan""".split()

JOBS = """baker dentist lawyer teacher farmer pilot coach painter singer tailor butcher plumber sailor miner barber grocer
engineer gardener librarian carpenter mechanic waiter writer dancer chemist""".split()

DEEDS = [
    "opened the gate",
    "rang the bell",
    "painted the wall",
    "fixed the roof",
    "sold the horse",
    "wrote a letter",
    "baked the bread",
    "washed the car",
    "planted a tree",
    "broke the window",
    "found the key",
    "lost the ring",
    "locked the door",
    "lit the fire",
    "swept the floor",
    "fed the birds",
    "milked the cow",
    "cut the grass",
    "mended the net",
    "carried the water",
    "climbed the tower",
    "crossed the river",
    "counted the coins",
    "read the map",
]

-- The tables that the load uses.
CREATE DATABASE IF NOT EXISTS shop;
USE shop;
CREATE TABLE items (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40), price DECIMAL(8, 2), KEY (name));
CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, item INT, amount INT, placed TIMESTAMP DEFAULT NOW());
INSERT INTO items (name, price) SELECT CONCAT('item ', seq), seq / 7 FROM seq_1_to_500;
